"""Requests to a public interface, each with its key and the status of its answer, which is known when Tollhouse is asked."""
from crowd import DAY, DAYS

LIBRARIES = ["python-requests/2.32.3", "axios/1.7.2", "okhttp/4.12.0", "Go-http-client/2.0", "shop-sdk-php/3.1"]
ENDPOINTS = ["/v1/products", "/v1/orders", "/v1/customers", "/v1/prices", "/v1/search"]


def request(crowd, at, truth, key, ip, agent, country, endpoint, item, status, method="GET"):
    crowd.add(at, truth, key=key, ip=ip, agent=agent, country=country, endpoint=endpoint, object=item, status=status,
              method=method)


def honest(crowd):
    draw = crowd.draw
    popular = [f"i{draw.below(100_000)}" for _ in range(400)]

    def item(own):
        """Most requests are for what the caller has asked for before, or for what many ask for."""
        return draw.pick(own) if draw.chance(0.7) else popular[int(len(popular) * draw.random() ** 2)]

    # The application itself: people open it, and it asks a few times; behind gateways and offices they share addresses.
    for visit in crowd.visits(1500):
        truth, at = crowd.honest(visit.place), visit.at
        own = [f"i{visit.person.number * 7 + turn}" for turn in range(6)]
        agent = "ShopApp/4.12.0 (Android 15)" if visit.person.number % 2 else "ShopApp/4.12.0 (iOS 18.4)"
        key = f"app-{visit.person.name}"
        if draw.chance(0.03):
            # The session is over: it gets a new one.
            request(crowd, at, truth, key, visit.ip, agent, visit.country, "/v1/orders", None, 401)
            at += 1
        for _ in range(draw.weighted([(50, 2), (30, 4), (15, 8), (5, 20)])):
            status = draw.weighted([(960, 200), (25, 404), (8, 500), (7, 304)])
            request(crowd, at, truth, key, visit.ip, agent, visit.country, draw.pick(ENDPOINTS), item(own), status)
            if status == 500:
                # It tries again, and again.
                for _ in range(draw.between(1, 4)):
                    at += draw.uniform(0.5, 4)
                    request(crowd, at, truth, key, visit.ip, agent, visit.country, "/v1/orders", own[0], draw.pick([500, 200]))
            at += draw.uniform(0.3, 25)
    # Partners' servers: each has a key, an address or a few, and a rhythm. A session is an hour of one.
    for number in range(int(14 * crowd.size + 3)):
        addresses = [crowd.business_address() for _ in range(draw.between(1, 3))]
        agent, own = draw.pick(LIBRARIES), [f"i{draw.below(100_000)}" for _ in range(draw.between(10, 60))]
        nightly = number % 5 == 0
        for hour in range(DAYS * 24):
            if draw.chance(0.6) and not (nightly and hour % 24 == 2):
                continue
            truth, at = crowd.honest("partner's server"), hour * 3600 + draw.uniform(0, 600)
            ordered = draw.sample(own, len(own))
            for turn in range(len(own) if nightly and hour % 24 == 2 else draw.between(1, 8)):
                status = draw.weighted([(970, 200), (15, 404), (15, 429)])
                request(crowd, at, truth, f"partner-{number}", draw.pick(addresses), agent, "DE", draw.pick(ENDPOINTS[:3]),
                        ordered[turn % len(ordered)], status)
                at += draw.uniform(0.4, 2) if nightly else draw.uniform(2, 60)
    # A developer writes a program: wrong keys, wrong paths, from home and from the office.
    for number in range(crowd.campaigns(5)):
        at, truth, ip = draw.uniform(0, 3.5 * DAY), crowd.honest("developer"), crowd.home_address()
        for turn in range(draw.between(15, 50)):
            status = draw.weighted([(60, 200), (20, 404), (12, 400), (8, 401)])
            key = f"dev-{number}" if status != 401 else draw.pick([f"dev-{number}x", ""])
            request(crowd, at, truth, key or None, ip, "curl/8.5.0", "DE", draw.pick(ENDPOINTS), f"i{draw.below(30)}", status)
            at += draw.uniform(5, 90)
    # A monitor asks each five minutes; a search engine reads products, says who it is, and asks slowly.
    for turn in range(DAYS * 288):
        if turn % 2 == 0:
            request(crowd, turn * 300 + 3, crowd.honest("monitor"), "monitor", "100.64.1.9", "uptime-monitor/2.1", "DE",
                    "/v1/health", None, 200)
    at, truth = 0.4 * DAY, crowd.honest("search engine")
    for turn in range(crowd.amount(250)):
        request(crowd, at, truth, None, "198.18.66.7", "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
                "US", "/v1/products", f"i{turn * 3}", 200 if draw.chance(0.95) else 404)
        at += draw.wait(900)


def crawl(crowd, actor, addresses, keys, number, pause, status, step, agents, endpoint="/v1/products"):
    """Objects one after the other, or at random where `step` is 0."""
    draw = crowd.draw
    number = crowd.amount(number)
    at, truth, first = crowd.begin(number * pause), crowd.abuse(actor), draw.below(50_000)
    for turn in range(number):
        ip, country = addresses[turn % len(addresses)]
        item = f"i{first + turn * step}" if step else f"i{draw.below(1_000_000)}"
        request(crowd, at, truth, draw.pick(keys), ip, draw.pick(agents), country, endpoint, item, draw.weighted(status))
        at += draw.wait(pause)


def abusive(crowd):
    draw = crowd.draw
    found, mostly_missing, refused = [(95, 200), (5, 404)], [(12, 200), (88, 404)], [(98, 401), (2, 200)]
    app = ["ShopApp/4.12.0 (Android 15)", "ShopApp/4.12.0 (iOS 18.4)"]
    for _ in range(crowd.campaigns(1)):
        crawl(crowd, "scraping, one key, fast", crowd.rented(1, "datacentre"), ["app-scrape1"], 500, 1, found, 1, LIBRARIES[:1])
        crawl(crowd, "scraping, one key, slowly", crowd.rented(1, "near"), ["app-scrape2"], 300, 40, found, 1, app[:1])
        crawl(crowd, "scraping, one key, forty addresses", crowd.rented(40, "far"), ["app-scrape3"], 300, 10, found, 1,
              app[:1])
        crawl(crowd, "scraping, thirty keys and addresses", crowd.rented(30, "datacentre"),
              [f"app-s{draw.hex(5)}" for _ in range(30)], 450, 10, found, 0, app)
        crawl(crowd, "enumeration, one address", crowd.rented(1, "far"), ["app-enum1"], 200, 3, mostly_missing, 0, app,
              "/v1/orders")
        crawl(crowd, "enumeration, thirty addresses", crowd.rented(30, "far"), ["app-enum2"], 200, 20, mostly_missing, 0, app,
              "/v1/customers")
        crawl(crowd, "guessing keys, one address", crowd.rented(1, "datacentre"), [f"k{draw.hex(8)}" for _ in range(150)], 150, 4,
              refused, 1, LIBRARIES[3:4])
        crawl(crowd, "guessing keys, fifty addresses", crowd.rented(50, "far"), [f"k{draw.hex(8)}" for _ in range(150)], 150, 30,
              refused, 1, LIBRARIES[3:4])
    # A partner's key that leaked: used from elsewhere, by another program, for what the partner never asks for.
    for number in range(crowd.campaigns(2)):
        crawl(crowd, "leaked key", crowd.rented(3, "far"), [f"partner-{number + 1}"], 150, 8, found, 1, ["Go-http-client/1.1"],
              "/v1/customers")
    # Free keys for one program, so that none passes its quota.
    for _ in range(crowd.campaigns(1)):
        crawl(crowd, "many free keys, one address", crowd.rented(1, "near"), [f"free-{draw.hex(5)}" for _ in range(25)], 250, 15,
              found, 0, LIBRARIES[1:2])


def moved(crowd):
    """A partner's server that is replaced on the third day: another program at another address, and the same key."""
    draw = crowd.draw
    own = [f"i{draw.below(100_000)}" for _ in range(40)]
    servers = [(crowd.business_address(), "axios/1.7.2"), (crowd.business_address(), "shop-sdk-go/1.0")]
    for hour in range(DAYS * 24):
        ip, agent = servers[hour >= 50]
        truth, at = crowd.honest("partner's server that moves"), hour * 3600 + draw.uniform(0, 600)
        # The new one reads much at once.
        for _ in range(60 if hour == 50 else draw.between(2, 8)):
            item = draw.pick(own) if draw.chance(0.8) else f"i{draw.below(100_000)}"
            request(crowd, at, truth, "partner-moves", ip, agent, "DE", draw.pick(ENDPOINTS[:3]), item, 200)
            at += draw.uniform(1, 20)


def make(crowd):
    honest(crowd)
    abusive(crowd)
    moved(crowd)
