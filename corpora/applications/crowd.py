"""People, places, devices and addresses that the corpora of applications are made of.

A corpus is some days of one application. Honest people visit it from homes, families, an office, a campus, a carrier's
gateways, a library's computer and hotels; a sale starts at noon of the third day. Abusers rent addresses. Each event has
its actor in a file beside; nothing of it is in what is judged.
"""
import json
import math
import random
from bisect import bisect_right

DAY = 86_400
DAYS = 4
START = 1_778_457_600  # Monday, 2026-05-11T00:00:00Z
SALE = 2 * DAY + 12 * 3600

# How many honest visits, how many shared addresses among them, and how much abuse there is, beside the usual.
MIXES = {
    "usual": {"honest": 1.0, "shared": 1.0, "abuse": 1.0},
    "quiet": {"honest": 1.2, "shared": 1.0, "abuse": 0.3},
    "siege": {"honest": 0.7, "shared": 0.8, "abuse": 2.0},
    "crowded": {"honest": 1.0, "shared": 2.5, "abuse": 0.7},
    # For measuring alone.
    "unseen": {"honest": 0.9, "shared": 1.7, "abuse": 1.4},
}

AGENTS = [
    (22, "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/137.0.0.0 Safari/537.36"),
    (9, "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/137.0.0.0 Safari/537.36 Edg/137.0"),
    (8, "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:139.0) Gecko/20100101 Firefox/139.0"),
    (9, "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Version/18.4 Safari/605.1.15"),
    (4, "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 Chrome/137.0.0.0 Safari/537.36"),
    (2, "Mozilla/5.0 (X11; Linux x86_64; rv:139.0) Gecko/20100101 Firefox/139.0"),
    (2, "Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 Chrome/136.0.0.0 Safari/537.36"),
]
MOBILE_AGENTS = [
    (16, "Mozilla/5.0 (iPhone; CPU iPhone OS 18_4 like Mac OS X) AppleWebKit/605.1.15 Version/18.4 Mobile Safari/604.1"),
    (14, "Mozilla/5.0 (Linux; Android 15; K) AppleWebKit/537.36 Chrome/137.0.0.0 Mobile Safari/537.36"),
    (4, "Mozilla/5.0 (Android 15; Mobile; rv:139.0) Gecko/139.0 Firefox/139.0"),
    (8, "ShopApp/4.12.0 (Android 15)"),
    (7, "ShopApp/4.12.0 (iOS 18.4)"),
]
COUNTRIES = [(62, "DE"), (9, "AT"), (7, "CH"), (6, "FR"), (5, "NL"), (5, "PL"), (3, "IT"), (2, "US"), (1, "TR")]
FAR = ["US", "BR", "VN", "IN", "RU", "ID", "NG", "CN"]
# Visits by hour of the day.
HOURS = [2, 1, 1, 1, 1, 2, 4, 8, 12, 13, 12, 11, 12, 11, 10, 10, 11, 12, 13, 14, 14, 12, 8, 4]
FIRST_NAMES = (
    "anna ben clara david emma felix greta hans ida jonas karl lena marie nils olga paul rosa simon tina uwe vera walter "
    "yara zoe lukas mia leon sofia noah lea finn laura max julia tom sara erik nora oskar ella"
).split()
LAST_NAMES = (
    "meyer schulz fischer weber wagner becker hofmann koch bauer richter klein wolf neumann schwarz braun lange krause "
    "werner lehmann maier huber moser dubois martin bernard jansen visser kowalski nowak rossi ferrari smith jones"
).split()
MAIL_DOMAINS = [(38, "gmail.com"), (16, "gmx.de"), (14, "web.de"), (8, "outlook.com"), (6, "t-online.de"), (5, "icloud.com"),
                (4, "yahoo.com"), (2, "posteo.de")]


class Draw:
    """Draws that are the same in every version of Python: all are made of `random()`."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def below(self, number):
        return int(self.random() * number)

    def between(self, low, high):
        return low + self.below(high - low + 1)

    def uniform(self, low, high):
        return low + self.random() * (high - low)

    def chance(self, share):
        return self.random() < share

    def pick(self, items):
        return items[self.below(len(items))]

    def weighted(self, items):
        at = self.random() * sum(weight for weight, _ in items)
        for weight, item in items:
            at -= weight
            if at < 0:
                return item
        return items[-1][1]

    def wait(self, mean):
        """A time until the next of events that come by chance."""
        return -mean * math.log(1 - self.random())

    def shuffled(self, items):
        keyed = [(self.random(), number, item) for number, item in enumerate(items)]
        return [item for *_, item in sorted(keyed, key=lambda one: one[:2])]

    def sample(self, items, number):
        return self.shuffled(items)[:number]

    def hex(self, digits):
        return "".join("0123456789abcdef"[self.below(16)] for _ in range(digits))


class Person:
    def __init__(self, number, place, country, devices, addresses):
        self.number, self.place, self.country = number, place, country
        self.devices, self.addresses = devices, addresses
        self.name = f"u{number}"
        # When he was last seen, and where he is until when while he travels.
        self.seen = -DAY
        self.journey = None


class Visit:
    """A person at a device and an address, at a time."""

    def __init__(self, at, person, device, ip, country, place):
        self.at, self.person, self.device, self.ip = at, person, device, ip
        self.country, self.place = country, place


class Crowd:
    def __init__(self, seed, mix="usual", size=1.0):
        self.draw = Draw(f"{seed}/{mix}")
        self.mix = MIXES[mix]
        self.size = size
        self.rows = []
        self.people = []
        self.sessions = 0
        self.devices = 0

    # What is made.

    def add(self, at, truth, **event):
        fields = {name: value for name, value in event.items() if value is not None}
        self.rows.append((round(at, 2), len(self.rows), fields, truth))

    def honest(self, actor):
        """The truth of one honest session."""
        self.sessions += 1
        return ("honest", actor, f"h{self.sessions}")

    def abuse(self, actor):
        """The truth of one campaign of abuse."""
        self.sessions += 1
        return ("abuse", actor, f"a{self.sessions}")

    def write(self, events, truths):
        for at, _, fields, truth in sorted(self.rows, key=lambda row: row[:2]):
            if 0 <= at < DAYS * DAY:
                events.write(json.dumps({"time": round(START + at, 2), **fields}, ensure_ascii=False) + "\n")
                truths.write("\t".join(truth) + "\n")

    # Addresses and devices.

    def home_address(self):
        draw = self.draw
        if draw.chance(0.25):
            return f"2001:db8:{draw.below(65536):x}:{draw.below(65536):x}::{draw.below(65535) + 1:x}"
        return f"10.{draw.below(256)}.{draw.below(256)}.{draw.between(1, 254)}"

    def business_address(self):
        return f"100.{self.draw.between(64, 127)}.{self.draw.below(256)}.{self.draw.between(1, 254)}"

    def rented(self, number, kind):
        """Addresses of an abuser: in few networks of a data centre, or at people's homes all over the world."""
        draw = self.draw
        if kind == "datacentre":
            nets = [f"198.{draw.between(18, 19)}.{draw.below(256)}" for _ in range(max(1, number // 4))]
            return [(f"{draw.pick(nets)}.{draw.between(1, 254)}", "US") for _ in range(number)]
        if kind == "near":
            return [(self.home_address(), "DE") for _ in range(number)]
        return [(self.home_address(), draw.pick(FAR) if draw.chance(0.8) else "DE") for _ in range(number)]

    def device(self, mobile=None):
        """A device: the identifier that its cookie or app has, and its agent."""
        self.devices += 1
        mobile = self.draw.chance(0.5) if mobile is None else mobile
        return (f"d{self.devices:04x}{self.draw.hex(8)}", self.draw.weighted(MOBILE_AGENTS if mobile else AGENTS))

    # People.

    def person(self, place, country, devices, addresses):
        self.people.append(Person(len(self.people), place, country, devices, addresses))
        return self.people[-1]

    def populate(self, visits):
        """People for so many visits in all."""
        draw, shared = self.draw, self.mix["shared"]
        homes = int(visits * 0.18)
        for _ in range(homes):
            devices = [self.device() for _ in range(draw.between(1, 2))]
            self.person("home", draw.weighted(COUNTRIES), devices, [self.home_address()])
        for _ in range(int(visits * 0.012)):
            address, country, devices = self.home_address(), draw.weighted(COUNTRIES), [self.device() for _ in range(3)]
            for _ in range(draw.between(3, 5)):
                self.person("family", country, [draw.pick(devices)] + [self.device(True)], [address])
        for _ in range(2):
            address = self.business_address()
            for _ in range(int(40 * shared)):
                self.person("office", "DE", [self.device(False)], [address])
        campus = [self.business_address() for _ in range(2)]
        for _ in range(int(90 * shared)):
            self.person("campus", "DE", [self.device()], campus)
        gateways = [f"100.64.7.{draw.between(1, 254)}" for _ in range(3)]
        for _ in range(int(visits * 0.05 * shared)):
            self.person("carrier", "DE", [self.device(True)], gateways)
        computer, address = self.device(False), self.business_address()
        for _ in range(int(30 * shared)):
            self.person("library", "DE", [computer], [address])

    def moment(self, place):
        """A time of a visit."""
        draw = self.draw
        day = draw.below(DAYS)
        if place == "office":
            return day * DAY + draw.uniform(8.0, 9.5) * 3600 if draw.chance(0.6) else day * DAY + draw.uniform(9, 17) * 3600
        if place == "library":
            return day * DAY + draw.uniform(10, 18) * 3600
        hour = draw.weighted([(weight, hour) for hour, weight in enumerate(HOURS)])
        return day * DAY + hour * 3600 + draw.uniform(0, 3600)

    def visits(self, number):
        """So many visits of honest people, in the order of their times; at a sale's beginning many at once."""
        draw = self.draw
        number = int(number * self.size * self.mix["honest"])
        self.populate(number)
        weights = {"office": 2.0, "campus": 1.5, "family": 1.0, "library": 1.0}
        people = [(weights.get(person.place, 1.0), person) for person in self.people]
        ends, total = [], 0.0
        for weight, _ in people:
            total += weight
            ends.append(total)
        times = []
        for turn in range(number):
            person = people[min(bisect_right(ends, draw.random() * total), len(people) - 1)][1]
            at, place = self.moment(person.place), person.place
            # One computer is used by one after the other, also at a sale.
            if turn < number * 0.15 and place != "library":
                at, place = SALE + draw.uniform(0, 1500) * draw.random(), "sale"
            times.append((at, turn, person, place))
        return [self.visit(at, person, place) for at, _, person, place in sorted(times, key=lambda one: one[:2])]

    def visit(self, at, person, place):
        draw = self.draw
        device, ip, country = draw.pick(person.devices), draw.pick(person.addresses), person.country
        if draw.chance(0.03):
            # A new browser or phone, which is known from now on.
            device = self.device()
            person.devices[draw.below(len(person.devices))] = device
        if person.journey and at > person.journey[0]:
            person.journey = None
        if person.place == "home" and not person.journey and at > person.seen + 4 * 3600 and draw.chance(0.02):
            # The journey takes hours, and the visits during it come from there.
            abroad = draw.pick(["ES", "IT", "GR", "US", "GB"])
            person.journey = (at + draw.uniform(0.5, 2) * DAY, self.home_address(), abroad)
        person.seen = person.journey[0] + 4 * 3600 if person.journey else at
        if person.journey:
            place, (_, ip, country) = "traveller", person.journey
        elif place == "home" and draw.chance(0.02):
            place, ip, country = "tunnel", f"198.18.200.{draw.between(1, 40)}", draw.pick(["NL", "US", "CH"])
        elif place == "home" and draw.chance(0.10):
            place, ip = "carrier", f"100.64.7.{draw.between(1, 254)}"
        return Visit(at, person, device, ip, country, place)

    def campaigns(self, number):
        """How often a kind of abuse comes: at least once."""
        return max(1, round(number * self.size * self.mix["abuse"]))

    def amount(self, number):
        """How much a campaign does."""
        return max(4, round(number * min(1.0, 0.4 + 0.6 * self.size)))

    def begin(self, length=0.0):
        """When a campaign begins: not before there is a day of other events."""
        return self.draw.uniform(DAY, DAYS * DAY - length)
