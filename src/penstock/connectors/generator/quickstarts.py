"""Schemas to begin with: the names, fields and keys of Confluent's quickstarts.

Fields have the same names and types, and values of the same kind; the people, products and
addresses are invented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Node = Any


class Quickstart(NamedTuple):
    """A schema with annotations, and the field that is the record's key."""

    schema: Node
    key: str


def _of(kind: str, logical: str = "", /, **annotations: Any) -> Node:
    node: dict[str, Any] = {"type": kind}
    if logical:
        node["logicalType"] = logical
    if annotations:
        node["arg.properties"] = annotations
    return node


def _range(kind: str, low: float, high: float, logical: str = "") -> Node:
    return _of(kind, logical, range={"min": low, "max": high})


def _counted(kind: str, start: int = 0, step: int = 1, logical: str = "") -> Node:
    return _of(kind, logical, iteration={"start": start, "step": step})


def _like(regex: str) -> Node:
    return _of("string", regex=regex)


def _one_of(*options: Any, kind: str = "string") -> Node:
    return _of(kind, options=list(options))


def _record(name: str, /, **fields: Node) -> Node:
    space, _, short = name.rpartition(".")
    node: dict[str, Any] = {"type": "record", "name": short}
    if space:
        node["namespace"] = space
    node["fields"] = [{"name": field, "type": kind} for field, kind in fields.items()]
    return node


def _rows(name: str, types: Mapping[str, str], rows: Sequence[Sequence[Any]]) -> Node:
    """A record that is one of several."""
    node = _record(name, **types)
    options = [dict(zip(types, row, strict=True)) for row in rows]
    return {**node, "arg.properties": {"options": options}}


_USER: Final = _like("User_[1-9]")
_PEOPLE: Final = (
    ("Ada", "Novak"), ("Bela", "Fischer"), ("Carmen", "Ortiz"), ("Dmitri", "Petrov"),
    ("Esra", "Yilmaz"), ("Farid", "Haddad"), ("Greta", "Lindholm"), ("Hiro", "Tanaka"),
    ("Ines", "Costa"), ("Jonas", "Weber"), ("Kofi", "Mensah"), ("Lena", "Kowalska"),
    ("Mei", "Chen"), ("Nadia", "Rossi"), ("Oskar", "Nielsen"), ("Priya", "Raman"),
)  # fmt: skip
_NAMES: Final = tuple(" ".join(person) for person in _PEOPLE)
_ADDRESSES: Final = tuple(f"198.51.100.{host}" for host in range(7, 250, 9))
_CITIES: Final = (
    ("Raleigh", "NC"), ("Chicago", "IL"), ("Sacramento", "CA"), ("Austin", "TX"),
    ("Boston", "MA"), ("Atlanta", "GA"), ("Lexington", "KY"),
)  # fmt: skip
_SHOES: Final = tuple(f"5b6c0d1e-0000-4000-8000-{number:012d}" for number in range(1, 41))
_BUYERS: Final = tuple(f"7d8e9f00-0000-4000-8000-{number:012d}" for number in range(1, 41))
_SINCE_2021_MS: Final = 1_609_459_200_000
_DAYS: Final = _range("int", 18000, 19000, "date")
_VEHICLE: Final = _range("int", 1000, 9999)
_ENDPOINT: Final = {"ip": _one_of(*_ADDRESSES), "port": _range("int", 10000, 99999)}


def _pizza_lines() -> Node:
    menu = (("pizza", 14.5), ("salad", 6.2), ("calzone", 12.8), ("wings", 8.4), ("dessert", 5.1))
    types = {"product_id": "int", "category": "string", "quantity": "int",
             "unit_price": "double", "net_price": "double"}  # fmt: skip
    rows = [
        (number * 10 + quantity, category, quantity, price, round(price * quantity, 2))
        for number, (category, price) in enumerate(menu, 1)
        for quantity in range(1, 5)
    ]
    line = _rows("order_line", types, rows)
    return {"type": "array", "items": line, "arg.properties": {"length": {"min": 1, "max": 5}}}


def _users(**more: Node) -> Node:
    return _record(
        "ksql.users",
        registertime=_range("long", 1487715775521, 1519273364600),
        userid=_USER,
        regionid=_like("Region_[1-9]"),
        gender=_one_of("MALE", "FEMALE", "OTHER"),
        **more,
    )


def _contacts() -> Node:
    rows = [
        {
            "phone": f"55501{number:05d}",
            "city": city,
            "state": state,
            "zipcode": f"{90000 + number}",
        }
        for number, (city, state) in enumerate(_CITIES)
    ]
    return {"type": "map", "values": "string", "arg.properties": {"options": rows}}


def _interests() -> Node:
    options = [["Game", "News"], ["Game", "Sport"], ["News", "Movies"], ["News", "Travel"]]
    return {"type": "array", "items": "string", "arg.properties": {"options": options}}


QUICKSTARTS: Final[Mapping[str, Quickstart]] = {
    "clickstream_codes": Quickstart(
        _rows(
            "clickstream.codes",
            {"code": "int", "definition": "string"},
            [(200, "Successful"), (302, "Redirect"), (404, "Page not found"),
             (405, "Method not allowed"), (406, "Not acceptable"), (407, "Proxy authentication")],
        ),
        "code",
    ),
    "clickstream": Quickstart(
        _record(
            "clickstream.clickstream",
            ip=_one_of(*_ADDRESSES),
            userid=_range("int", 1, 40),
            remote_user=_one_of("-"),
            time=_counted("string", 1, 10),
            _time=_counted("long", 1, 10),
            request=_one_of(
                "GET /index.html HTTP/1.1", "GET /site/login.html HTTP/1.1",
                "GET /site/user_status.html HTTP/1.1", "GET /images/track.png HTTP/1.1",
            ),
            status=_one_of("200", "302", "404", "405", "406", "407"),
            bytes=_one_of("278", "1289", "2048", "4096", "4006", "4196", "14096"),
            referrer=_one_of("-"),
            agent=_one_of("Mozilla/5.0 (X11; Linux x86_64)", "Mozilla/5.0 (compatible; bot/2.1)"),
        ),
        "ip",
    ),
    "clickstream_users": Quickstart(
        _record(
            "clickstream.users",
            user_id=_counted("int", 1),
            username=_like("[a-z]{4,8}_[0-9]{2}"),
            registered_at=_range("long", 1407645330000, 1502339792000),
            first_name=_one_of(*(first for first, _ in _PEOPLE)),
            last_name=_one_of(*(last for _, last in _PEOPLE)),
            city=_one_of(*(city for city, _ in _CITIES)),
            level=_one_of("Gold", "Silver", "Platinum"),
        ),
        "user_id",
    ),
    "orders": Quickstart(
        _record(
            "ksql.orders",
            ordertime=_range("long", 1487715775521, 1519273364600),
            orderid=_counted("int"),
            itemid=_like("Item_[1-9][0-9]{0,2}"),
            orderunits=_range("double", 0.1, 10.0),
            address=_record(
                "address",
                city=_like("City_[1-9]{0,2}"),
                state=_like("State_[1-9]{0,2}"),
                zipcode=_range("long", 10000, 99999),
            ),
        ),
        "orderid",
    ),
    "ratings": Quickstart(
        _record(
            "ksql.ratings",
            rating_id=_counted("long", 1),
            user_id=_range("int", -1, 20),
            stars=_range("int", 1, 5),
            route_id=_range("int", 1, 9999),
            rating_time=_counted("long", 1, 12),
            channel=_one_of("web", "iOS", "ios", "android", "iOS-test"),
            message=_one_of(
                "the seat was fine, the coffee was not", "on time, for once", "never again",
                "friendly crew", "my bag is still travelling", "would fly again",
            ),
        ),
        "rating_id",
    ),
    "users": Quickstart(_users(), "userid"),
    "users_": Quickstart(_users(interests=_interests(), contactinfo=_contacts()), "userid"),
    "pageviews": Quickstart(
        _record(
            "ksql.pageviews",
            viewtime=_counted("long", 1, 10),
            userid=_USER,
            pageid=_like("Page_[1-9][0-9]"),
        ),
        "viewtime",
    ),
    "stock_trades": Quickstart(
        _record(
            "ksql.StockTrade",
            side=_one_of("BUY", "SELL"),
            quantity=_range("int", 1, 5000),
            symbol=_one_of("ZVV", "ZVZZT", "ZWZZT", "ZXZZT", "ZTEST", "ZJZZT", "ZBZX"),
            price=_range("int", 5, 1000),
            account=_one_of("ABC123", "LMN456", "XYZ789"),
            userid=_USER,
        ),
        "symbol",
    ),
    "inventory": Quickstart(
        _record(
            "ksql.inventory",
            id=_counted("long"), quantity=_counted("long"), productid=_counted("long"),
        ),
        "id",
    ),
    "product": Quickstart(
        _record(
            "ksql.product",
            id=_counted("long"), name=_counted("string"), description=_counted("string"),
            price=_counted("double"),
        ),
        "id",
    ),
    "purchases": Quickstart(
        _record(
            "datagen.example.purchase",
            id=_counted("long"),
            item_type=_one_of("boots", "shirt", "tent", "stove", "rope", "lamp", "map", "compass"),
            quantity=_range("long", 1, 10),
            price_per_unit={**_range("bytes", 10.0, 50.0, "decimal"), "precision": 4, "scale": 2},
        ),
        "id",
    ),
    "transactions": Quickstart(
        _record(
            "datagen.example.transactions",
            transaction_id=_counted("long", 1),
            card_id=_range("long", 1, 24),
            user_id=_like("User_[1-9]{0,1}"),
            purchase_id=_counted("long"),
            store_id=_range("int", 1, 7),
        ),
        "transaction_id",
    ),
    "stores": Quickstart(
        _rows(
            "datagen.example.stores",
            {"store_id": "int", "city": "string", "state": "string"},
            [(number, *place) for number, place in enumerate(_CITIES, 1)],
        ),
        "store_id",
    ),
    "credit_cards": Quickstart(
        _rows(
            "datagen.example.users",
            {"card_id": "int", "card_number": "long", "cvv": "int", "expiration_date": "string"},
            [(row, 6011000000000000 + row * 7919, 100 + row * 31, f"{row % 12 + 1:02d}/29")
             for row in range(1, 25)],
        ),
        "card_id",
    ),
    "campaign_finance": Quickstart(
        _record(
            "datagen.campaign_finance",
            time=_range("long", 1587715775521, 1619273364600),
            candidate_id=_like("[A-Z][1-9]{8,8}"),
            party_affiliation=_one_of("REP", "DEM", "IND"),
            contribution=_range("int", 20, 3500),
        ),
        "candidate_id",
    ),
    "fleet_mgmt_description": Quickstart(
        _record(
            "fleet_mgmt.fleet_mgmt_description",
            vehicle_id=_VEHICLE,
            driver_name=_one_of(*_NAMES),
            license_plate=_like(r"[A-Z]{2}\d{6}[A-Z]"),
        ),
        "vehicle_id",
    ),
    "fleet_mgmt_location": Quickstart(
        _record(
            "fleet_mgmt.fleet_mgmt_location",
            vehicle_id=_VEHICLE,
            location=_record("location", latitude="double", longitude="double"),
            ts=_counted("long", _SINCE_2021_MS, 100_000, "timestamp-millis"),
        ),
        "vehicle_id",
    ),
    "fleet_mgmt_sensors": Quickstart(
        _record(
            "fleet_mgmt.fleet_mgmt_sensors",
            vehicle_id=_VEHICLE,
            engine_temperature=_range("int", 150, 250),
            average_rpm=_range("int", 1800, 5000),
        ),
        "vehicle_id",
    ),
    "pizza_orders": Quickstart(
        _record(
            "pizza_orders.pizza_orders",
            store_id=_range("int", 1, 10),
            store_order_id=_counted("int", 1000),
            coupon_code=_range("int", 1000, 2000),
            date=_DAYS,
            status=_one_of("accepted"),
            order_lines=_pizza_lines(),
        ),
        "store_id",
    ),
    "pizza_orders_completed": Quickstart(
        _record(
            "pizza_orders.pizza_orders_completed",
            store_id=_range("int", 1, 10),
            store_order_id=_counted("int", 1000, 2),
            date=_DAYS,
            status=_one_of("completed"),
            rack_time_secs=_range("int", 130, 230),
            order_delivery_time_secs=_range("int", 1100, 2000),
        ),
        "store_id",
    ),
    "pizza_orders_cancelled": Quickstart(
        _record(
            "pizza_orders.pizza_orders_cancelled",
            store_id=_range("int", 1, 10),
            store_order_id=_counted("int", 1001, 2),
            date=_DAYS,
            status=_one_of("cancelled"),
        ),
        "store_id",
    ),
    "insurance_offers": Quickstart(
        _rows(
            "insurance.insurance_offers",
            {"offer_id": "int", "offer_name": "string", "offer_url": "string"},
            [(number, name, f"https://insurance.example/offers/{name}")
             for number, name in enumerate(
                 ("new_home_policy", "new_auto_policy", "discount_existing", "travel"), 1)],
        ),
        "offer_id",
    ),
    "insurance_customers": Quickstart(
        _rows(
            "insurance.insurance_customers",
            {"customer_id": "int", "first_name": "string", "last_name": "string",
             "email": "string", "gender": "string", "income": "int", "fico": "int",
             "years_active": "int"},
            [(400 + row, first, last, f"{first.lower()}@mail.example",
              ("Female", "Male")[row % 2], 30_000 + row * 9_973, 450 + row * 23, row % 30)
             for row, (first, last) in enumerate(_PEOPLE)],
        ),
        "customer_id",
    ),
    "insurance_customer_activity": Quickstart(
        _record(
            "insurance.insurance_customer_activity",
            activity_id=_counted("int", 1),
            customer_id=_range("int", 400, 400 + len(_PEOPLE)),
            activity_type=_one_of("web_open", "mobile_open", "new_account"),
            propensity_to_churn=_range("double", 0.01, 1),
            ip_address=_one_of(*_ADDRESSES),
        ),
        "activity_id",
    ),
    "gaming_games": Quickstart(
        _record(
            "gaming.gaming_games",
            id=_range("int", 1000, 5000),
            room_name=_one_of(*(f"{game} -- {level}" for game in ("Arcade", "Puzzle", "Racing")
                                for level in ("Rookie", "Skilled", "Expert"))),
            created_date=_counted("long", _SINCE_2021_MS, 100_000, "timestamp-millis"),
        ),
        "id",
    ),
    "gaming_players": Quickstart(
        _rows(
            "gaming.gaming_players",
            {"player_id": "int", "player_name": "string", "ip": "string"},
            [(1001 + row, name, _ADDRESSES[row % len(_ADDRESSES)])
             for row, name in enumerate(_NAMES)],
        ),
        "player_id",
    ),
    "gaming_player_activity": Quickstart(
        _record(
            "gaming.gaming_player_activity",
            player_id=_range("int", 1001, 1001 + len(_NAMES)),
            game_room_id=_range("int", 1000, 5000),
            points=_range("int", 10, 500),
            coordinates=_like(r"\[[0-9][0-9],[0-9][0-9]\]"),
        ),
        "player_id",
    ),
    "payroll_employee": Quickstart(
        _rows(
            "payroll.payroll_employee",
            {"employee_id": "int", "first_name": "string", "last_name": "string", "age": "int",
             "ssn": "string", "hourly_rate": "int", "gender": "string", "email": "string"},
            [(1000 + row, first, last, 20 + row * 2, f"900-{row:02d}-{1000 + row}",
              17 + row % 9, ("female", "male")[row % 2], f"{first.lower()}@company.example")
             for row, (first, last) in enumerate(_PEOPLE)],
        ),
        "employee_id",
    ),
    "payroll_employee_location": Quickstart(
        _record(
            "payroll.payroll_employee_location",
            employee_id=_range("int", 1000, 1100),
            lab=_like(r"lab-\d{1}"),
            department_id=_range("int", 1, 10),
            arrival_date=_DAYS,
        ),
        "employee_id",
    ),
    "payroll_bonus": Quickstart(
        _record(
            "payroll.payroll_bonus",
            employee_id=_range("int", 1000, 1100),
            bonus=_range("int", 10, 50),
            ts=_range("long", _SINCE_2021_MS, 1640995199000, "timestamp-millis"),
        ),
        "employee_id",
    ),
    "syslog_logs": Quickstart(
        _record(
            "syslogs.syslog_logs",
            name=_like("[a-zA-Z]{5,8}"),
            type=_one_of("RFC5424", "RFC3164", "CEF", "UNKNOWN"),
            message=_like("[a-z ]{10,15}"),
            host=_one_of(*_ADDRESSES[:10]),
            version=_one_of("3.25.1"),
            tag=_one_of(".source.s_src"),
            level=_range("int", 0, 191),
            facility=_one_of("syslog", "authpriv", "cron"),
            severity=_range("int", 0, 8),
            appName=_like("[A-Z]{5,8}"),
            remoteAddress=_one_of(*_ADDRESSES[10:20]),
            rawMessage=_like("[a-z ]{10,15}"),
            processId=_like("[1-9]{1}[0-9]{6}"),
            messageId=_like("[1-9]{1}[0-9]{2}"),
            deviceVendor=_like("[a-z]{5}"),
            deviceProduct=_like("[a-z]{5}"),
            deviceVersion=_one_of("1.0", "2.0", "3.0", "4.0", "5.0"),
            ts=_counted("long", _SINCE_2021_MS, 100),
        ),
        "host",
    ),
    "device_information": Quickstart(
        _record(
            "device_information.device_information",
            device_ip=_one_of(*_ADDRESSES),
            mac_address=_like("02(-[0-9A-F]{2}){5}"),
            owner=_one_of(*_NAMES),
        ),
        "device_ip",
    ),
    "siem_logs": Quickstart(
        _record(
            "siem_logs.siem_logs",
            hostname=_one_of(*_ADDRESSES),
            action=_one_of("allow", "deny"),
            l4=_one_of("tcp"),
            access_group=_one_of(*(f"group-{group}" for group in range(1, 6))),
            source=_record("source", **_ENDPOINT),
            destination=_record("destination", **_ENDPOINT),
        ),
        "hostname",
    ),
    "shoes": Quickstart(
        _rows(
            "shoes.shoe_product",
            {"id": "string", "brand": "string", "name": "string", "sale_price": "int",
             "rating": "double"},
            [(shoe, f"Maker {row % 5 + 1}", f"Runner {100 + row}", 4995 + row * 250, row % 6.0)
             for row, shoe in enumerate(_SHOES)],
        ),
        "id",
    ),
    "shoe_customers": Quickstart(
        _rows(
            "shoes.shoe_customers",
            {"id": "string", "first_name": "string", "last_name": "string", "email": "string",
             "phone": "string", "street_address": "string", "state": "string",
             "zip_code": "string", "country": "string", "country_code": "string"},
            [(buyer, *_PEOPLE[row % len(_PEOPLE)], f"buyer{row}@mail.example",
              f"555-01{row:02d}", f"{row + 1} Main Street", _CITIES[row % len(_CITIES)][1],
              f"{10000 + row}", "United States", "US")
             for row, buyer in enumerate(_BUYERS)],
        ),
        "id",
    ),
    "shoe_orders": Quickstart(
        _record(
            "shoes.shoe_orders",
            order_id=_counted("int", 1000),
            product_id=_one_of(*_SHOES),
            customer_id=_one_of(*_BUYERS),
            ts=_counted("long", _SINCE_2021_MS, 100_000, "timestamp-millis"),
        ),
        "order_id",
    ),
    "shoe_clickstream": Quickstart(
        _record(
            "shoes.shoe_clickstream",
            product_id=_one_of(*_SHOES),
            user_id=_one_of(*_BUYERS),
            view_time=_range("int", 10, 120),
            page_url=_like("https://www[.]acme[.]com/product/[a-z]{5}"),
            ip=_one_of(*_ADDRESSES),
            ts=_counted("long", 1_609_457_200_000, 10_000, "timestamp-millis"),
        ),
        "product_id",
    ),
}  # fmt: skip
