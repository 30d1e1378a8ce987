"""Payments, each with the answer of the card's issuer, which is known when Tollhouse is asked."""
from crowd import DAY, DAYS



class Card:
    def __init__(self, draw, country, prefix=None):
        self.token = f"c{draw.hex(12)}"
        self.prefix = prefix or {"DE": "4", "US": "5"}.get(country, "4") + f"{draw.below(300):03d}{draw.below(30):02d}"
        self.country = country


def pay(crowd, at, truth, user, ip, device, country, card, amount, result, ship=None, new=None):
    device, agent = device
    crowd.add(at, truth, user=user, ip=ip, device=device, agent=agent, country=country, card=card.token, issuer=card.prefix,
              card_country=card.country, ship_country=ship, amount=amount, result=result,
              account_hours=new)


def basket(draw):
    """An amount in cents: most are small, some are not."""
    if draw.chance(0.05):
        return draw.between(99, 499)
    return int(900 + 4000 * draw.random() ** 2 + (draw.below(60_000) if draw.chance(0.06) else 0))


def honest(crowd):
    draw = crowd.draw
    cards = {}
    for visit in crowd.visits(5200):
        person, at, truth = visit.person, visit.at, crowd.honest(visit.place)
        if person.name not in cards:
            issued = person.country if draw.chance(0.96) else draw.pick(["US", "GB", "FR", "NL"])
            cards[person.name] = [Card(draw, issued) for _ in range(draw.between(1, 2))]
            if person.place == "family" and draw.chance(0.4):
                # The cards of who lives there, too.
                before = crowd.people[person.number - 1]
                if before.addresses == person.addresses:
                    cards[person.name] = cards.get(before.name, cards[person.name])
        own = cards[person.name]
        if draw.chance(0.02):
            own[0] = Card(draw, own[0].country)
        card, amount = draw.pick(own), basket(draw)
        ship = person.country if draw.chance(0.96) else draw.pick(["AT", "FR", "PL", "US"])
        hours = draw.between(0, 3) if draw.chance(0.15) else draw.between(24, 20_000)
        for turn in range(draw.weighted([(90, 0), (7, 1), (2, 2), (1, 4)])):
            # Not enough money, a wrong code, the wrong card: again, and perhaps with another one.
            pay(crowd, at, truth, person.name, visit.ip, visit.device, visit.country, card, amount, "declined", ship=ship,
                new=hours)
            at += draw.uniform(8, 120)
            card = draw.pick(own)
        if draw.chance(0.985):
            pay(crowd, at, truth, person.name, visit.ip, visit.device, visit.country, card, amount, "approved", ship=ship,
                new=hours)
        if draw.chance(0.01):
            # An app that got no answer, and pays once more.
            pay(crowd, at + draw.uniform(2, 30), truth, person.name, visit.ip, visit.device, visit.country, card, amount,
                "approved", ship=ship, new=hours)
    # Subscriptions: the shop's own server charges hundreds of cards at three in the morning, a tenth in vain.
    for day in range(DAYS):
        truth, at = crowd.honest("subscriptions"), day * DAY + 3 * 3600
        for person in draw.sample([person for person in crowd.people if person.name in cards], crowd.amount(120)):
            pay(crowd, at, truth, person.name, None, (None, "billing/1.4"), None, cards[person.name][0], 999,
                "approved" if draw.chance(0.9) else "declined")
            at += draw.uniform(0.5, 2)
    # A till: many cards at one device, small amounts.
    device, ip = crowd.device(False), crowd.business_address()
    for day in range(DAYS):
        at = day * DAY + 10 * 3600
        while at < day * DAY + 18 * 3600:
            truth, card = crowd.honest("till"), Card(draw, "DE")
            if draw.chance(0.05):
                pay(crowd, at, truth, "till-1", ip, device, "DE", card, basket(draw), "declined", new=9000)
                at += 20
            pay(crowd, at, truth, "till-1", ip, device, "DE", card, basket(draw), "approved", new=9000)
            at += draw.wait(1500 / max(0.4, crowd.size))
    # A company's card that many use, a reseller who buys much, a person who gives presents to half the world.
    shared = Card(draw, "DE")
    for person in draw.sample([person for person in crowd.people if person.place == "office"], 12):
        at = draw.between(0, DAYS - 1) * DAY + draw.uniform(9, 17) * 3600
        pay(crowd, at, crowd.honest("company's card"), person.name, person.addresses[0], person.devices[0], "DE", shared,
            basket(draw), "approved", ship="DE", new=5000)
    reseller, card = crowd.person("home", "DE", [crowd.device(False)], [crowd.home_address()]), Card(draw, "DE")
    for turn in range(crowd.amount(30)):
        pay(crowd, draw.uniform(0, DAYS * DAY), crowd.honest("reseller"), reseller.name, reseller.addresses[0],
            reseller.devices[0], "DE", card, draw.between(40_000, 400_000), "approved", ship="DE", new=8000)
    giver, card, at, truth = draw.pick(crowd.people), Card(draw, "DE"), 2.6 * DAY, crowd.honest("presents for friends abroad")
    for ship in ["FR", "US", "IT", "PL", "BR"]:
        pay(crowd, at, truth, giver.name, giver.addresses[0], giver.devices[0], giver.country, card, basket(draw), "approved",
            ship=ship, new=9000)
        at += draw.uniform(100, 700)


def test_cards(crowd, actor, number, addresses, devices, users, pause, good, prefix=None, amounts=(50, 300)):
    draw = crowd.draw
    number = crowd.amount(number)
    at, truth = crowd.begin(number * pause), crowd.abuse(actor)
    accounts = [f"t{draw.hex(6)}" for _ in range(users)]
    for turn in range(number):
        ip, country = draw.pick(addresses)
        card = Card(draw, draw.pick(["US", "GB", "BR", "DE", "FR"]), prefix)
        pay(crowd, at, truth, accounts[turn % users], ip, draw.pick(devices) if devices else crowd.device(), country, card,
            draw.between(*amounts), "approved" if draw.chance(good) else "declined", ship=card.country, new=draw.between(0, 5))
        at += draw.wait(pause)


def abusive(crowd):
    draw = crowd.draw
    for _ in range(crowd.campaigns(2)):
        tool = (None, "python-requests/2.32.3")
        test_cards(crowd, "card testing, one address", 200, crowd.rented(1, "datacentre"), [tool], 1, 4, 0.1)
    for _ in range(crowd.campaigns(2)):
        test_cards(crowd, "card testing, one device, proxies", 120, crowd.rented(60, "far"), [crowd.device()], 6, 30, 0.15)
    for _ in range(crowd.campaigns(2)):
        test_cards(crowd, "card testing, proxies and devices", 150, crowd.rented(80, "far"), None, 150, 60, 0.15)
    for _ in range(crowd.campaigns(2)):
        prefix = f"4{draw.below(10 ** 5):05d}"
        test_cards(crowd, "numbers of one issuer, proxies", 150, crowd.rented(80, "far"), None, 150, 60, 0.04, prefix,
                   (900, 3000))
    for _ in range(crowd.campaigns(1)):
        test_cards(crowd, "card testing, slow, baskets as usual", 40, crowd.rented(40, "near"), None, 40, 4000, 0.5, None,
                   (900, 5000))
    # Stolen cards that work are cashed: dear goods, a new account, shipped elsewhere.
    for _ in range(crowd.campaigns(8)):
        at, truth, (address,) = crowd.begin(7200), crowd.abuse("cashing, far"), crowd.rented(1, "far")
        user, device, ship = f"t{draw.hex(6)}", crowd.device(), draw.pick(["RO", "NG", "LT", "VN"])
        for _ in range(draw.between(2, 6)):
            card = Card(draw, draw.pick(["US", "DE", "FR"]))
            pay(crowd, at, truth, user, address[0], device, address[1], card, draw.between(30_000, 150_000),
                draw.pick(["approved", "approved", "declined"]), ship=ship, new=draw.between(0, 3))
            at += draw.uniform(100, 1500)
    for _ in range(crowd.campaigns(8)):
        at, truth, (address,) = crowd.begin(), crowd.abuse("cashing, near, once"), crowd.rented(1, "near")
        pay(crowd, at, truth, f"t{draw.hex(6)}", address[0], crowd.device(), "DE", Card(draw, "DE"), draw.between(20_000, 60_000),
            "approved", ship="DE", new=draw.between(0, 40))
    # A taken account: a new device far away, the owner's stored card, a new address to ship to.
    for person in draw.sample([person for person in crowd.people if person.place == "home"], crowd.campaigns(8)):
        at, truth, (address,) = crowd.begin(3600), crowd.abuse("taken account"), crowd.rented(1, "far")
        card, device = Card(draw, person.country), crowd.device()
        for _ in range(draw.between(1, 4)):
            pay(crowd, at, truth, person.name, address[0], device, draw.pick(["NG", "VN", "RU"]), card,
                draw.between(20_000, 90_000), "approved", ship=draw.pick(["RO", "LT"]), new=6000)
            at += draw.uniform(60, 900)


class Known:
    """A card that was used here before."""

    def __init__(self, fields):
        self.token, self.prefix, self.country = fields["card"], fields["issuer"], fields["card_country"]


def copied(crowd):
    """Customers' cards that were copied elsewhere, in new accounts; and children who pay by a parent's card."""
    draw = crowd.draw
    paid = [(at, fields) for at, _, fields, truth in crowd.rows
            if truth[0] == "honest" and fields["result"] == "approved" and fields.get("ship_country")]
    for at, fields in draw.sample([one for one in paid if DAY < one[0] < 3 * DAY], crowd.campaigns(8)):
        at, truth = at + draw.uniform(3600, 0.9 * DAY), crowd.abuse("copied card of a customer")
        (ip, country), = crowd.rented(1, "far")
        device, user = crowd.device(), f"t{draw.hex(6)}"
        for _ in range(draw.between(1, 3)):
            pay(crowd, at, truth, user, ip, device, country, Known(fields), basket(draw), "approved", ship="DE",
                new=draw.between(0, 5))
            at += draw.uniform(60, 900)
    for at, fields in draw.sample([one for one in paid if one[0] < 3 * DAY], crowd.amount(15)):
        truth = crowd.honest("child with a parent's card")
        pay(crowd, at + draw.uniform(3600, 0.9 * DAY), truth, f"k{draw.hex(6)}", fields["ip"], crowd.device(True),
            fields["country"], Known(fields), basket(draw), "approved", ship=fields["ship_country"], new=draw.between(0, 3))


def make(crowd):
    honest(crowd)
    abusive(crowd)
    copied(crowd)
