"""Checks the description of a node's interface: that it is valid, that each operation has an example that its schemas allow, and
that the node answers the examples so.

    python3 check.py URL EXAMPLES.json [--update]

`--update` writes the node's answers into the file. Long ones are cut.
"""
import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from openapi_schema_validator import OAS31Validator
from openapi_spec_validator import validate

URL, FILE, UPDATE = sys.argv[1], Path(sys.argv[2]), "--update" in sys.argv
LINES, ITEMS_MAX, TEXT_MAX = "application/x-ndjson", 2, 400


def fetch(method, path, body=None, headers=None):
    request = urllib.request.Request(URL + path, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers.get_content_type(), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers.get_content_type(), error.read().decode()


WRONG = []


def check(holds, why):
    if not holds:
        WRONG.append(why)


def allowed(value, schema, where):
    """Checks a value against a schema of the description."""
    whole = {"components": DESCRIPTION["components"], **schema}
    errors = [f"{'/'.join(map(str, error.path))}: {error.message[:200]}" for error in OAS31Validator(whole).iter_errors(value)]
    check(not errors, f"{where}: {errors}")


def known(text, names):
    """Replaces what examples call things by what this node calls them."""
    for example, here in names.items():
        text = text.replace(example, here)
    return text


def cut(value):
    if isinstance(value, dict):
        return {name: cut(one) for name, one in value.items()}
    if isinstance(value, list):
        return [cut(one) for one in value[:ITEMS_MAX]]
    return value if not isinstance(value, str) or len(value) <= TEXT_MAX else value[:TEXT_MAX].rsplit("\n", 1)[0] + "\n..."


def read(media, text):
    """Returns an answer as an example shows it: of lines the first, of a text all."""
    if media == LINES:
        return json.loads(text.splitlines()[0])
    return json.loads(text) if media.endswith("json") else text


DESCRIPTION = json.loads(fetch("GET", "/openapi.json")[2])
validate(DESCRIPTION)
operations = {
    operation["operationId"]: (method.upper(), path, operation)
    for path, item in DESCRIPTION["paths"].items() for method, operation in item.items()
}
assert len(operations) == sum(map(len, DESCRIPTION["paths"].values())), "operations share an id"
steps, names, answers = json.loads(FILE.read_text()), {}, {}
assert sorted(step["operation"] for step in steps) == sorted(operations), set(operations) ^ {step["operation"] for step in steps}
for step in steps:
    name = step["operation"]
    method, path, operation = operations[name]
    # The first run of a new example: it names an earlier answer's member.
    text = json.dumps(step)
    for of, answer in answers.items():
        if isinstance(answer, dict):
            for member, value in answer.items():
                text = text.replace(f"${of}.{member}", str(value)) if isinstance(value, str) else text
    step.update(json.loads(known(text, names)) if UPDATE else json.loads(text))
    sent = json.loads(known(json.dumps(step), names))
    given = {**sent.get("path", {}), **sent.get("query", {})}
    required = {one["name"] for one in operation.get("parameters", []) if one.get("required")}
    parameters = {one["name"] for one in operation.get("parameters", [])}
    check(required <= set(given) <= parameters, f"{name}: {given}, and not {parameters}")
    for place, value in sent.get("path", {}).items():
        path = path.replace("{" + place + "}", urllib.parse.quote(str(value)))
    query = {one: str(value).lower() if isinstance(value, bool) else value for one, value in sent.get("query", {}).items()}
    query = "?" + urllib.parse.urlencode(query) if query else ""
    body, media = sent.get("body"), sent.get("media", "")
    check(("requestBody" in operation) == (body is not None), f"{name}: a body")
    headers = {"content-type": media} if media else {}
    headers.update(sent.get("headers", {}))
    if media == LINES:
        data = "".join(json.dumps(line) + "\n" for line in body)
    else:
        data = body if isinstance(body, str) or body is None else json.dumps(body)
    if step.get("unplayed"):
        continue
    status, kind, came = fetch(method, path + query, data.encode() if data is not None else None, headers)
    if status not in (200, 201, 202):
        WRONG.append(f"{name}: {status} {came}")
        continue
    contents = operation["responses"][str(status)].get("content", {})
    if contents and kind not in contents:
        WRONG.append(f"{name}: {kind} is not among {list(contents)}")
        continue
    answer = read(kind, came) if contents else None
    if contents and not step.get("by_hand"):
        allowed(answer, contents[kind].get("schema", {}), f"{name}: the node's answer")
    if UPDATE and not step.get("by_hand"):
        step.update(status=status, answer=None if name == "openapi" else cut(answer), kind=kind if contents else None)
    elif UPDATE:
        step.update(status=status, kind=kind)
    elif isinstance(answer, dict) and not step.get("by_hand") and name != "openapi":
        check(set(answer) == set(step["answer"]), f"{name}: {set(answer) ^ set(step['answer'])}: UPDATE=1 writes the examples")
    answers[name] = answer
    if isinstance(answer, dict) and isinstance(step.get("answer"), dict) and not step.get("by_hand"):
        for member in ("id", "version", "token", "name"):
            if isinstance(answer.get(member), str) and isinstance(step["answer"].get(member), str) and len(answer[member]) > 8:
                names[step["answer"][member]] = answer[member]
    if UPDATE:
        continue
    # As the description shows them.
    for one in operation.get("parameters", []):
        if one["name"] in given:
            check("example" in one, f"{name}: no example of {one['name']}")
            allowed(one.get("example"), one.get("schema", {}), f"{name}: {one['name']}")
    if body is not None:
        content = operation["requestBody"]["content"][media]
        check("example" in content, f"{name}: no example of a body")
        allowed(content.get("example"), content.get("schema", {}), f"{name}: the body")
    for kind, content in contents.items():
        if kind == step.get("kind") and name != "openapi":
            check("example" in content, f"{name}: no example of an answer")
            allowed(content.get("example"), content.get("schema", {}), f"{name}: the answer")
if UPDATE:
    order = ("operation", "path", "query", "headers", "media", "body", "status", "kind", "answer", "by_hand", "unplayed")
    lines = [json.dumps({key: step[key] for key in order if step.get(key) is not None}, ensure_ascii=False) for step in steps]
    FILE.write_text("[\n" + ",\n".join(lines) + "\n]\n")
if WRONG:
    sys.exit("\n".join(WRONG))
print(f"{len(steps)} operations")
