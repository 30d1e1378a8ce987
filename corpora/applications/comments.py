"""Comments, messages and reviews, each with where it is posted and since when its author is a member."""
from crowd import DAY, DAYS, FIRST_NAMES, START

WORDS = (
    "price order quality size colour shoes coat delivery parcel friend week winter summer yesterday today model version battery "
    "screen camera recipe bread garden tree river train ticket city museum concert music film book chapter author question "
    "answer problem update support repair warranty shop store market coffee kitchen table chair window door road bike tyre "
    "helmet jacket glove rain snow wind light sound speaker cable charger phone tablet laptop printer paper school teacher "
    "course exam result team game match player season trainer goal ball run walk swim climb mountain lake beach holiday hotel "
    "room view breakfast dinner cook salt pepper cheese milk apple plum pear carrot soup salad child dog cat horse bird fish"
).split()
LINKS = (
    "i we you they it this that these is was has had will can would should may with without for from about after before"
).split()
SHORT = ["thanks!", "+1", "great article", "me too", "same here", "first", "lol", "agreed", "nice one", "any news?"]
HOSTS = ["www.youtube.com", "en.wikipedia.org", "github.com", "www.instagram.com", "imgur.com", "maps.google.com"]


def sentence(draw, words):
    said = [draw.pick(WORDS if turn % 2 else LINKS) if draw.chance(0.8) else draw.pick(WORDS) for turn in range(words)]
    return " ".join(said).capitalize() + draw.pick([".", ".", "!", "?"])


def text_of(draw):
    if draw.chance(0.15):
        return draw.pick(SHORT)
    return " ".join(sentence(draw, draw.between(5, 16)) for _ in range(draw.between(1, 4)))


class Board:
    """The places that one can post to: most posts go to few of them, and those are young."""

    def __init__(self, crowd):
        draw = crowd.draw
        self.draw = draw
        self.places = [(f"p{number}", START - draw.uniform(0, 400) * DAY * draw.random()) for number in range(400)]

    def place(self):
        return self.places[int(len(self.places) * self.draw.random() ** 3)]

    def any(self):
        return self.draw.pick(self.places)


def post(crowd, at, truth, author, place, text, links=(), typed=None):
    user, joined, ip, device = author
    where, opened = place
    crowd.add(at, truth, user=user, joined=round(joined), ip=ip, device=device and device[0], agent=device and device[1],
              place=where, opened=round(min(opened, START + at)), text=" ".join([text, *links]), typed_seconds=typed)


def honest(crowd):
    draw, board = crowd.draw, Board(crowd)
    joined = {}
    for visit in crowd.visits(5000):
        name, at = visit.person.name, visit.at
        if name not in joined:
            joined[name] = START + at - (draw.uniform(120, 4000) if draw.chance(0.15) else draw.uniform(2, 1500) * DAY)
        author = (name, joined[name], visit.ip, visit.device[:2])
        truth = crowd.honest(visit.place)
        for _ in range(draw.weighted([(60, 1), (25, 2), (10, 3), (4, 6), (1, 14)])):
            place = board.places[0] if visit.place == "sale" and draw.chance(0.7) else board.place()
            text = text_of(draw)
            if draw.chance(0.004):
                text += draw.pick([" Is there a WhatsApp group for it?", " We have a Telegram channel for our club.",
                                   " My phone has no signal there.", " Does it work with Signal, too?"])
            links = [f"https://{draw.pick(HOSTS)}/{draw.hex(6)}"] if draw.chance(0.05) else []
            if draw.chance(0.01):
                links = [f"https://{draw.hex(5)}.example/{draw.hex(4)}"]
            typed = draw.between(1, 3) if draw.chance(0.01) else int(3 + len(text) * draw.uniform(0.1, 0.6))
            post(crowd, at, truth, author, place, text, links, typed)
            if draw.chance(0.01):
                # An app that got no answer, and sends it again.
                again = at
                for _ in range(draw.between(1, 4)):
                    again += draw.uniform(2, 20)
                    post(crowd, again, truth, author, place, text, links, typed)
            at += draw.uniform(30, 400)
    old = START - 900 * DAY
    # People who say the same in many places: a moderator, a seller who thanks for reviews, one who asks in three forums.
    for role, places, text, links in [
        ("moderator", 60, "Please read the rules before you post here, and keep to the topic.",
         ["https://shop.example/rules"]),
        ("seller", 80, "Thank you for your review! Tell us if there is anything that we can do for you. Your team.", []),
    ]:
        author = (role, old, crowd.business_address(), crowd.device(False))
        for turn in range(places):
            at = draw.uniform(turn / places * DAYS * DAY, DAYS * DAY)
            post(crowd, at, crowd.honest(role), author, board.any(), text, links, 4)
    for person in draw.sample(crowd.people, crowd.campaigns(6)):
        at, text, truth = draw.uniform(0, DAY * 3), text_of(draw) + " " + sentence(draw, 8), crowd.honest("asks in three places")
        for _ in range(3):
            post(crowd, at, truth, (person.name, old, person.addresses[0], person.devices[0]), board.place(), text)
            at += draw.uniform(60, 600)
    # A petition that members pass on, word by word, and news that many link to.
    petition = "The council wants to close our library in autumn. Sign the petition, and tell your friends about it!"
    for turn, person in enumerate(draw.sample(crowd.people, crowd.amount(40))):
        truth = crowd.honest("petition" if turn % 2 else "news of the day")
        at = draw.uniform(DAY, 2 * DAY)
        joined_at = joined.get(person.name, old)
        links = ["https://petition.example/library"] if turn % 2 else [f"https://news.example/{draw.below(9)}"]
        if joined_at < START + at:
            author = (person.name, joined_at, person.addresses[0], person.devices[0])
            post(crowd, at, truth, author, board.place(), petition if turn % 2 else text_of(draw), links, 20)
    # A program that says each hour how things are.
    for turn in range(DAYS * 24):
        author = ("status", old, crowd.people[0].addresses[0], (None, "status-bot/1.0"))
        post(crowd, turn * 3600 + 7, crowd.honest("monitor"), author, board.places[7],
             "All systems are up and running as they should.")


PITCH = [
    "Earn {n} euro a day from home with this simple method that banks do not want you to know",
    "Best replica watches and bags, {n} % off today only, free shipping to your door",
    "My uncle lost {n} kilos in a month with these natural drops, order them here",
    "Cheap followers and likes for your channel, {n} for the price of a coffee",
]
SPIN = [
    ["I", "My friend", "A colleague", "My sister", "This man", "Our neighbour"],
    ["finally found", "discovered", "was shown", "came across", "stumbled upon", "tried"],
    ["a real way", "the only method", "an easy trick", "a simple plan", "a proven system"],
    ["to earn", "to make", "to get", "to receive", "to collect"],
    ["money", "cash", "a second income", "four figures", "crypto"],
    ["every week", "each day", "from home", "without any risk", "in your spare time", "while asleep"],
    ["see how", "look here", "details", "more at", "read this", "check it out"],
]


def account(crowd, at, ip, device, age=(60, 7200)):
    return (f"n{crowd.draw.hex(7)}", START + at - crowd.draw.uniform(*age), ip, device)


def abusive(crowd):
    draw, board = crowd.draw, Board(crowd)
    for _ in range(crowd.campaigns(2)):
        at, truth, pitch = crowd.begin(4000), crowd.abuse("one text, one account"), draw.pick(PITCH)
        author = account(crowd, at, crowd.rented(1, "datacentre")[0][0], crowd.device(False))
        link = f"https://{draw.hex(6)}.example/"
        for _ in range(crowd.amount(80)):
            post(crowd, at, truth, author, board.any(), pitch.format(n=700), [link], 1)
            at += draw.wait(15)
    for _ in range(crowd.campaigns(3)):
        at, truth, pitch = crowd.begin(20_000), crowd.abuse("one text, fifteen accounts"), draw.pick(PITCH)
        addresses, link = crowd.rented(5, "far"), f"https://{draw.hex(6)}.example/"
        authors = [account(crowd, at, draw.pick(addresses)[0], crowd.device()) for _ in range(15)]
        for _ in range(crowd.amount(60)):
            post(crowd, at, truth, draw.pick(authors), board.place(), pitch.format(n=draw.between(5, 900)), [link],
                 draw.between(2, 9))
            at += draw.wait(200)
    for _ in range(crowd.campaigns(3)):
        at, truth = crowd.begin(60_000), crowd.abuse("spun texts, thirty accounts")
        addresses, hosts = crowd.rented(30, "far"), [f"{draw.hex(6)}.example" for _ in range(3)]
        for ip, _ in addresses:
            author = account(crowd, at, ip, crowd.device())
            for _ in range(draw.between(1, 4)):
                text = " ".join(draw.pick(part) for part in SPIN)
                post(crowd, at, truth, author, board.place(), text, [f"https://{draw.pick(hosts)}/{draw.hex(4)}"],
                     draw.between(2, 20))
                at += draw.wait(600)
    for _ in range(crowd.campaigns(2)):
        at, truth = crowd.begin(60_000), crowd.abuse("messenger instead of links")
        addresses = crowd.rented(20, "far")
        for ip, _ in addresses:
            author = account(crowd, at, ip, crowd.device())
            for _ in range(draw.between(1, 4)):
                said = " ".join(draw.pick(part) for part in SPIN[:-1])
                contact = draw.pick(["write me on Telegram @", "WhatsApp +4915", "telegram: t.me/"]) + str(draw.below(10 ** 6))
                post(crowd, at, truth, author, board.place(), f"{said}, {contact}", [], draw.between(2, 30))
                at += draw.wait(600)
    for _ in range(crowd.campaigns(2)):
        at, truth = crowd.begin(5000), crowd.abuse("one device, many accounts")
        ip, device = crowd.home_address(), crowd.device(True)
        for _ in range(12):
            author = account(crowd, at, ip, device, (30, 600))
            for _ in range(draw.between(1, 3)):
                links = [f"https://{draw.hex(5)}.example"] if draw.chance(0.5) else []
                post(crowd, at, truth, author, board.place(), text_of(draw), links, draw.between(5, 40))
                at += draw.wait(120)
    for _ in range(crowd.campaigns(3)):
        at, truth, place = crowd.begin(1500), crowd.abuse("flood of one place"), board.place()
        age = (5 * DAY, 300 * DAY)
        author = account(crowd, at, crowd.home_address(), crowd.device(), age)
        for _ in range(crowd.amount(90)):
            post(crowd, at, truth, author, place, sentence(draw, draw.between(2, 8)), [], draw.between(1, 6))
            at += draw.wait(9)
    for _ in range(crowd.campaigns(3)):
        at, truth, place = crowd.begin(9000), crowd.abuse("reviews by order"), board.any()
        for ip, _ in crowd.rented(25, "near"):
            author = account(crowd, at, ip, crowd.device(), (60, 90_000))
            post(crowd, at, truth, author, place, text_of(draw) + " " + sentence(draw, 9), [], draw.between(10, 90))
            at += draw.wait(250)
    # The dear way: own texts, aged accounts, a new host each time.
    for _ in range(crowd.campaigns(1)):
        truth = crowd.abuse("own texts, aged accounts")
        for ip, _ in crowd.rented(40, "near"):
            at = crowd.begin()
            author = account(crowd, at, ip, crowd.device(), (20 * DAY, 200 * DAY))
            post(crowd, at, truth, author, board.place(), text_of(draw) + " " + sentence(draw, 9),
                 [f"https://{draw.hex(6)}.example/{draw.hex(3)}"], draw.between(20, 90))


HELLO = [
    "Hello all, I am {name}, new here, and hope to learn something about {one} and {two} from you.",
    "Hi, my name is {name}, I have been reading for a while. {one} and {two} are what I like most!",
    "Good evening from {name}. I joined because of the {one}, and my sister has the same {two} as some of you.",
]
OBFUSCATED = ["write to ⓉⒼ @{name}_{number}", "Telegram：@{name}_{number}", "W h a t s A p p +49 15{number}",
             "whatsapp: ＋４９１５{number}", "WeChat: {name}_{number}"]


def copied(crowd):
    """Texts that newcomers share but for names and words: of spammers, and of those who say hello."""
    draw, board = crowd.draw, Board(crowd)
    hello = board.places[3]
    for _ in range(crowd.amount(40)):
        at = draw.uniform(0, 3.9 * DAY)
        name, one, two = draw.pick(FIRST_NAMES).title(), draw.pick(WORDS), draw.pick(WORDS)
        author = account(crowd, at, crowd.home_address(), crowd.device())
        text = draw.pick(HELLO).format(name=name, one=one, two=two)
        post(crowd, at, crowd.honest("newcomer says hello"), author, hello, text, [], draw.between(20, 200))
    for _ in range(crowd.campaigns(2)):
        at, truth, pitch = crowd.begin(60_000), crowd.abuse("one text, other names and words"), draw.pick(PITCH)
        for ip, _ in crowd.rented(25, "far"):
            author = account(crowd, at, ip, crowd.device())
            name = draw.pick(FIRST_NAMES).title()
            text = f"{draw.pick(['Hi', 'Hello', 'Hey', 'Dear'])} {name}, {pitch.format(n=draw.between(5, 900))}, says {draw.pick(WORDS)}"
            post(crowd, at, truth, author, board.place(), text, [], draw.between(5, 60))
            at += draw.wait(600)
    for _ in range(crowd.campaigns(2)):
        at, truth = crowd.begin(60_000), crowd.abuse("obfuscated messenger")
        for ip, _ in crowd.rented(20, "far"):
            author = account(crowd, at, ip, crowd.device())
            contact = draw.pick(OBFUSCATED).format(name=draw.pick(FIRST_NAMES), number=draw.between(10_000_000, 99_999_999))
            post(crowd, at, truth, author, board.place(), f"{sentence(draw, draw.between(6, 12))} {contact}", [],
                 draw.between(5, 60))
            at += draw.wait(600)


def make(crowd):
    honest(crowd)
    abusive(crowd)
    copied(crowd)
