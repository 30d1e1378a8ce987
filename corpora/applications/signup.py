"""Sign-ups, each with the address and name that were typed and how the form was used."""
from crowd import DAY, FIRST_NAMES, LAST_NAMES, MAIL_DOMAINS

DISPOSABLE = ["mailinator.com", "guerrillamail.com", "10minutemail.com", "yopmail.com", "temp-mail.org", "sharklasers.com"]


def sign_up(crowd, at, truth, ip, device, country, email, name, seconds, phone=None):
    device, agent = device
    crowd.add(at, truth, email=email, name=name, ip=ip, device=device, agent=agent, country=country,
              form_seconds=seconds, phone=phone)


def own_address(draw):
    """An address as people have them."""
    first, last, domain = draw.pick(FIRST_NAMES), draw.pick(LAST_NAMES), draw.weighted(MAIL_DOMAINS)
    if draw.chance(0.08):
        domain = f"{last}-{draw.hex(3)}.{draw.pick(['de', 'com', 'org'])}"
    local = draw.weighted([(5, f"{first}.{last}"), (3, f"{first}{last}"), (3, f"{first[0]}.{last}"), (2, f"{last}.{first}"),
                           (2, f"{first}_{draw.pick(['b', 'k', 'x', 'the', 'real'])}{last[:3]}"), (1, f"{draw.hex(4)}{first}")])
    if draw.chance(0.55):
        local += str(draw.between(1, 99) if draw.chance(0.6) else draw.between(1950, 2012))
    return f"{local}@{domain}", f"{first.capitalize()} {last.capitalize()}"


def honest(crowd):
    draw = crowd.draw
    made = {}
    for visit in crowd.visits(18_000):
        # Most visits are of people who have an account already.
        number = made.get(visit.person.name, 0)
        if number and not (visit.place == "library" and draw.chance(0.2)):
            continue
        made[visit.person.name] = number + 1
        truth, at = crowd.honest(visit.place), visit.at
        email, name = own_address(draw)
        if draw.chance(0.006):
            email = f"{email.split('@')[0]}@{draw.pick(DISPOSABLE)}"
        seconds = draw.between(15, 240) if draw.chance(0.93) else draw.between(4, 9)  # by a password manager
        for _ in range(draw.weighted([(88, 1), (9, 2), (3, 4)])):
            # An address that was taken, a password that was too short, an app that got no answer.
            sign_up(crowd, at, truth, visit.ip, visit.device, visit.country, email, name, seconds)
            at += draw.uniform(3, 40)
            if draw.chance(0.1):
                email = own_address(draw)[0]
    # A course: thirty pupils sign up within ten minutes, from one address and one kind of computer.
    for lesson in range(2):
        ip, start = crowd.business_address(), lesson * DAY + draw.uniform(9, 14) * 3600
        for _ in range(crowd.amount(28)):
            email, name = own_address(draw)
            if lesson:
                email = email.split("@")[0] + "@school-42.de"
            sign_up(crowd, start + draw.uniform(0, 600), crowd.honest("course"), ip, crowd.device(False), "DE", email, name,
                    draw.between(20, 200))
    # A family makes accounts for all at one computer; a company for its people, by its own numbers.
    for _ in range(crowd.campaigns(12)):
        ip, device, at = crowd.home_address(), crowd.device(), draw.uniform(0, 3.9 * DAY)
        truth = crowd.honest("family at one computer")
        for _ in range(draw.between(2, 4)):
            email, name = own_address(draw)
            sign_up(crowd, at, truth, ip, device, "DE", email, name, draw.between(15, 120))
            at += draw.uniform(90, 900)
    ip, device, at = crowd.business_address(), crowd.device(False), DAY + 10 * 3600
    truth = crowd.honest("company's assistant")
    for number in range(4):
        sign_up(crowd, at, truth, ip, device, "DE", f"agent{number + 1}@huber-{draw.hex(3)}.de", "Huber GmbH",
                draw.between(15, 60))
        at += draw.uniform(60, 240)
    # A monitor signs up each six hours, by a tagged address.
    for turn in range(16):
        sign_up(crowd, turn * 21_600 + 11, crowd.honest("monitor"), "100.64.1.9", (None, "uptime-monitor/2.1"), "DE",
                f"monitor+{turn}@shop.example", "Monitor", 2)


def farm_address(draw, style, number):
    first, last = draw.pick(FIRST_NAMES), draw.pick(LAST_NAMES)
    if style == "numbers":
        return f"{first}{last[:4]}{draw.between(10_000, 99_999)}@gmail.com"
    if style == "random":
        return f"{''.join(draw.pick('bcdfghjklmnpqrstvwxz0123456789') for _ in range(draw.between(9, 14)))}@outlook.com"
    if style == "counted":
        return f"bonus{number}@gmail.com"
    if style == "tags":
        return f"max.profit+{number}@gmail.com"
    return own_address(draw)[0]


def farm(crowd, actor, number, style, addresses, devices, pause, seconds, domain=None, same_name=False):
    draw = crowd.draw
    at, truth = crowd.begin(number * pause), crowd.abuse(actor)
    name = f"{draw.pick(FIRST_NAMES)} {draw.pick(LAST_NAMES)}".title()
    for turn in range(crowd.amount(number)):
        ip, country = draw.pick(addresses)
        email = farm_address(draw, style, turn)
        if domain:
            email = f"{email.split('@')[0]}@{domain() if callable(domain) else domain}"
        own = name if same_name else f"{draw.pick(FIRST_NAMES)} {draw.pick(LAST_NAMES)}".title()
        sign_up(crowd, at, truth, ip, draw.pick(devices) if devices else crowd.device(), country, email, own,
                draw.between(*seconds))
        at += draw.wait(pause)


def abusive(crowd):
    draw = crowd.draw
    for _ in range(crowd.campaigns(2)):
        tool = (None, "python-requests/2.32.3")
        farm(crowd, "script, one address", 200, "random", crowd.rented(1, "datacentre"), [tool], 6, (0, 1))
    for _ in range(crowd.campaigns(3)):
        farm(crowd, "one device, new addresses", 40, "numbers", crowd.rented(40, "far"), [crowd.device(True)], 400, (8, 40))
    for _ in range(crowd.campaigns(3)):
        farm(crowd, "disposable domains", 40, "own", crowd.rented(20, "far"), None, 900, (10, 60), lambda: draw.pick(DISPOSABLE))
    for _ in range(crowd.campaigns(2)):
        domains = [f"{draw.hex(7)}.xyz" for _ in range(2)]
        farm(crowd, "own new domains", 50, "random", crowd.rented(25, "far"), None, 600, (10, 60), lambda: draw.pick(domains))
    for _ in range(crowd.campaigns(2)):
        farm(crowd, "counted addresses", 60, "counted", crowd.rented(30, "far"), None, 500, (10, 60))
    for _ in range(crowd.campaigns(2)):
        farm(crowd, "tags of one mailbox", 40, "tags", crowd.rented(20, "far"), None, 700, (10, 60))
    for _ in range(crowd.campaigns(2)):
        farm(crowd, "random addresses, proxies", 80, "random", crowd.rented(60, "far"), None, 400, (6, 30))
    for _ in range(crowd.campaigns(2)):
        addresses = crowd.rented(8, "datacentre")
        farm(crowd, "few networks", 60, "numbers", addresses, None, 300, (6, 40))
    for _ in range(crowd.campaigns(1)):
        farm(crowd, "by hand, homes nearby", 40, "own", crowd.rented(40, "near"), None, 3000, (20, 120))


def below(crowd):
    """Names below one new domain, so that none has many accounts; and a university's, which has them of old."""
    draw = crowd.draw
    for _ in range(crowd.campaigns(2)):
        owned = f"{draw.hex(7)}.xyz"
        farm(crowd, "names below a new domain", 50, "own", crowd.rented(25, "far"), None, 600, (10, 60),
             lambda owned=owned: f"{draw.hex(4)}.{owned}")
    for person in draw.sample([person for person in crowd.people if person.place == "campus"], crowd.amount(20)):
        local, name = own_address(draw)
        email = f"{local.split('@')[0]}@{draw.pick(['informatik', 'physik', 'jura'])}.uni-42.de"
        sign_up(crowd, draw.uniform(0, 3.9 * DAY), crowd.honest("university"), draw.pick(person.addresses),
                draw.pick(person.devices), "DE", email, name, draw.between(15, 120))


def make(crowd):
    honest(crowd)
    abusive(crowd)
    below(crowd)
