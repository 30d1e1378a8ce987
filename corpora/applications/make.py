#!/usr/bin/env python3
"""Makes the corpus of a preset: PRESET.ndjson has events, PRESET.truth a line for each with who made it.

    corpora/applications/make.py login --seed 7 --mix siege --out DIR
    corpora/applications/make.py --committed      Makes those of this folder anew

A line of the truth has `honest` or `abuse`, the kind of actor, and the session or campaign, between tabs. One seed, mix and
size always give the same bytes. Needs nothing but Python's standard library.
"""
import argparse
import gzip
import importlib
import io
import pathlib

from crowd import MIXES, Crowd

HERE = pathlib.Path(__file__).resolve().parent
# The sizes of those that are committed: small, and yet with every actor.
PRESETS = {
    "login": 0.35,
    "comments": 0.2,
    "signup": 0.4,
    "api": 0.3,
    "payment": 0.35,
}
ENDINGS = ("ndjson", "truth")


def make(preset, seed, mix, size):
    """The events and the truths of a corpus, as text."""
    crowd = Crowd(f"{preset}/{seed}", mix, size)
    importlib.import_module(preset).make(crowd)
    events, truths = io.StringIO(), io.StringIO()
    crowd.write(events, truths)
    return events.getvalue(), truths.getvalue()


def committed(preset):
    return make(preset, 1, "usual", PRESETS[preset])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("presets", nargs="*", metavar="PRESET", help=", ".join(PRESETS) + "; default: all")
    parser.add_argument("--seed", default=1, type=int)
    parser.add_argument("--mix", default="usual", choices=MIXES)
    parser.add_argument("--size", default=1.0, type=float, help="1 gives some 10,000 events")
    parser.add_argument("--out", default=pathlib.Path("."), type=pathlib.Path, metavar="DIR")
    parser.add_argument("--committed", action="store_true", help="those of this folder, compressed")
    args = parser.parse_args()
    for preset in args.presets or PRESETS:
        if preset not in PRESETS:
            parser.error(f"there is no preset {preset}: {', '.join(PRESETS)}")
        texts = committed(preset) if args.committed else make(preset, args.seed, args.mix, args.size)
        for text, ending in zip(texts, ENDINGS):
            if args.committed:
                # Neither name nor time in it, so that it changes with its content only.
                (HERE / f"{preset}.{ending}.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
            else:
                (args.out / f"{preset}.{ending}").write_text(text)


if __name__ == "__main__":
    main()
