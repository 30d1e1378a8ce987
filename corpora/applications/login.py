"""Attempts to log in: each has its result, which is known when Tollhouse is asked."""
from crowd import DAY, DAYS

TOOLS = ["python-requests/2.32.3", "Go-http-client/2.0", "okhttp/4.12.0"]
# Configurations of cracking tools carry agents of browsers, often old ones.
WORN_AGENTS = [
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/108.0.0.0 Safari/537.36",
    "Mozilla/5.0 (Windows NT 6.1; WOW64; rv:77.0) Gecko/20100101 Firefox/77.0",
]


def tag(text):
    """A short tag of a password that was tried, as an application makes it with a key: four digits say nothing of it."""
    value = 0
    for byte in text.encode():
        value = (value * 31 + byte) % 65_521
    return f"{value:04x}"


def attempt(crowd, at, truth, user, ip, device, country, result, password):
    device, agent = device
    tried = None if result == "success" else tag(password)
    crowd.add(at, truth, user=user, ip=ip, device=device, agent=agent, country=country, result=result, password=tried,
              site="shop.example")


def honest(crowd):
    draw = crowd.draw
    for visit in crowd.visits(5600):
        person, at = visit.person, visit.at
        truth = crowd.honest(visit.place)

        def enter(result, password="", user=None, at=at):
            attempt(crowd, at, truth, user or person.name, visit.ip, visit.device, visit.country, result, password)

        if draw.chance(0.015):
            typed = person.name + draw.pick(["x", "1", "@gmail.con", "ö"])
            enter("unknown_user", user=typed)
            at += draw.uniform(4, 20)
        if draw.chance(0.16 if visit.place == "sale" else 0.07):
            tries = draw.weighted([(60, 1), (25, 2), (10, 3), (4, 6), (1, 11)])
            for turn in range(tries):
                # People type the same wrong one again, or one that they have elsewhere, which may be a common one.
                wrong = draw.weighted([(5, f"{person.name}-{turn // 2}"), (3, f"{person.name}-old"), (1, draw.pick(COMMON))])
                enter("wrong_password", wrong, at=at)
                at += draw.uniform(4, 25)
            if draw.chance(0.2):
                continue
        enter("success", at=at)
    # An app that goes on with the password of before.
    people = [person for person in crowd.people if person.place in ("home", "carrier")]
    for person in draw.sample(people, crowd.campaigns(4)):
        at, truth, device = draw.uniform(0, DAY * DAYS - 7200), crowd.honest("app that retries"), draw.pick(person.devices)
        for turn in range(draw.between(8, 30)):
            attempt(crowd, at, truth, person.name, person.addresses[0], device, person.country, "wrong_password", "before")
            at += min(600, 2 ** min(turn, 9)) * draw.uniform(0.8, 1.2)
        attempt(crowd, at, truth, person.name, person.addresses[0], device, person.country, "success", "")
    # A monitor logs in every quarter of an hour, and looks whether a wrong password is refused.
    ip, device = crowd.business_address(), (None, "uptime-monitor/2.1")
    for turn in range(DAYS * 96):
        truth = crowd.honest("monitor")
        wrong = turn % 8 == 0
        attempt(crowd, turn * 900 + draw.uniform(0, 3), truth, "monitor", ip, device, "DE",
                "wrong_password" if wrong else "success", "wrong on purpose")


COMMON = ["123456", "password", "qwerty", "passwort", "hallo123"]


def leaked(crowd, share):
    """A pair of a leaked list: whether it is of an account here, and whether it opens it."""
    draw = crowd.draw
    if draw.chance(0.6):
        return f"x{draw.below(10 ** 6)}", "unknown_user"
    return draw.pick(crowd.people).name, "success" if draw.chance(share) else "wrong_password"


def stuff(crowd, actor, addresses, attempts, pause, agents, keeps_device=False):
    """Leaked pairs of names and passwords, one by one."""
    draw = crowd.draw
    at, truth = crowd.begin(attempts * pause), crowd.abuse(actor)
    fixed = crowd.device(False)[0]
    for turn in range(attempts):
        ip, country = addresses[turn % len(addresses)]
        user, result = leaked(crowd, 0.015)
        device = fixed if keeps_device else (crowd.device(False)[0] if draw.chance(0.5) else None)
        attempt(crowd, at, truth, user, ip, (device, draw.pick(agents)), country, result, f"leaked-{turn}")
        at += draw.wait(pause)


def abusive(crowd):
    draw = crowd.draw
    browsers = [crowd.device(False)[1] for _ in range(12)]
    for _ in range(crowd.campaigns(2)):
        stuff(crowd, "stuffing, one address", crowd.rented(1, "datacentre"), crowd.amount(250), 1.5, [draw.pick(TOOLS)], True)
    for _ in range(crowd.campaigns(2)):
        stuff(crowd, "stuffing, forty addresses", crowd.rented(40, "datacentre"), crowd.amount(400), 8, WORN_AGENTS)
    for _ in range(crowd.campaigns(1)):
        stuff(crowd, "stuffing, homes, worn agents", crowd.rented(300, "far"), crowd.amount(400), 40, WORN_AGENTS)
    for _ in range(crowd.campaigns(1)):
        stuff(crowd, "stuffing, homes, good agents", crowd.rented(300, "far"), crowd.amount(400), 40, browsers)
    names = [person.name for person in crowd.people]
    for actor, number, kind, pause in [("spraying, one address", 1, "datacentre", 5),
                                       ("spraying, sixty addresses", 60, "far", 300)]:
        for _ in range(crowd.campaigns(1)):
            addresses, truth, at = crowd.rented(number, kind), crowd.abuse(actor), crowd.begin(100 * pause)
            password = draw.pick(["Sommer2026!", "Willkommen1", "Shop2026"])
            for turn, user in enumerate(draw.sample(names, crowd.amount(100))):
                ip, country = addresses[turn % number]
                attempt(crowd, at, truth, user, ip, (None, draw.pick(browsers)), country, "wrong_password", password)
                at += draw.wait(pause)
    for actor, number, pause in [("guessing, one address", 1, 20), ("guessing, forty addresses, slowly", 40, 900)]:
        for _ in range(crowd.campaigns(3)):
            addresses, truth, at = crowd.rented(number, "far"), crowd.abuse(actor), crowd.begin(60 * pause)
            user = draw.pick(names)
            for turn in range(crowd.amount(60)):
                ip, country = addresses[turn % number]
                attempt(crowd, at, truth, user, ip, (None, draw.pick(browsers)), country, "wrong_password", f"guess-{turn}")
                at += draw.wait(pause)
    for actor, number in [("enumeration, one address", 1), ("enumeration, thirty addresses", 30)]:
        addresses, truth, at = crowd.rented(number, "datacentre"), crowd.abuse(actor), crowd.begin(2000)
        for turn in range(crowd.amount(120)):
            ip, country = addresses[turn % number]
            known = draw.chance(0.15)
            attempt(crowd, at, truth, draw.pick(names) if known else f"{draw.pick(['a', 'm', 'k'])}{draw.below(10 ** 5)}", ip,
                    (None, draw.pick(browsers)), country, "wrong_password" if known else "unknown_user", "x")
            at += draw.wait(10)
    # A password that was phished: the first attempt succeeds.
    victims = draw.sample([person for person in crowd.people if person.place == "home"], 3 * crowd.campaigns(8))
    logins = {}
    for at, _, fields, _ in crowd.rows:
        if fields["result"] == "success":
            logins.setdefault(fields["user"], []).append(at)
    for turn, person in enumerate(victims):
        actor = ["takeover, far, soon after the owner", "takeover, far, any time", "takeover, near"][turn % 3]
        near = turn % 3 == 2
        (ip, country), = crowd.rented(1, "near" if near else "far")
        at = crowd.begin(DAY / 2)
        seen = [login for login in logins.get(person.name, []) if login > DAY]
        if turn % 3 == 0:
            if not seen:
                continue
            at = draw.pick(seen) + draw.uniform(300, 5000)
        country = person.country if near else draw.pick(["NG", "VN", "RU"])
        attempt(crowd, at, crowd.abuse(actor), person.name, ip, crowd.device(), country, "success", "")


def customers(crowd):
    """Thieves who are customers, too: their devices are known, by accounts of their own."""
    draw = crowd.draw
    victims = draw.sample([person for person in crowd.people if person.place == "home"], crowd.campaigns(6))
    for number, person in enumerate(victims):
        (ip, country), device, at = crowd.rented(1, "far")[0], crowd.device(), crowd.begin(DAY / 2)
        truth = crowd.abuse("takeover, far, by a customer")
        attempt(crowd, at - 3000, crowd.honest("customer far away"), f"c{number}", ip, device, country, "success", "")
        # The owner is at home a little before.
        attempt(crowd, at - 2000, crowd.honest("home"), person.name, person.addresses[0], person.devices[0], person.country,
                "success", "")
        country = country if country != person.country else "VN"
        attempt(crowd, at, truth, person.name, ip, device, country, "success", "")


def make(crowd):
    honest(crowd)
    abusive(crowd)
    customers(crowd)
