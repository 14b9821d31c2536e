"""The reference solution of 04.fair."""


class MyFairness:
    """Who is served next: a counter of service over share for each client."""

    def __init__(self, shares: dict, credit: int, rules: dict) -> None:
        self.shares, self.credit, self.rules = shares, credit, rules
        self.counter = dict.fromkeys(shares, 0.0)
        self.waits = dict.fromkeys(shares, 0)  # requests that have no seat yet

    def arrived(self, client: str) -> None:
        """A request of ``client`` came. No answer."""
        others = [self.counter[other] for other, waits in self.waits.items() if waits]
        if not self.waits[client] and others:
            self.counter[client] = max(self.counter[client], min(others) - self.credit)
        self.waits[client] += 1

    def served(self, client: str, input: int, output: int) -> None:
        """``client`` was just served so many tokens of prompts and of answers. No answer."""
        service = input * self.rules["input_percent"] + output * self.rules["output_percent"]
        self.counter[client] += service / 100 / self.shares[client]

    def pick(self, waiting_clients: list[str]) -> str:
        """Whose oldest request gets the free seat; the client that has waited longest stands first."""
        client = min(waiting_clients, key=self.counter.get)
        self.waits[client] -= 1
        return client
