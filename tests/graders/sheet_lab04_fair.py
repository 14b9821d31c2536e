"""The sheet of 04.fair: the reference, the stub, each misconception, and adapters around gpulab."""

from types import SimpleNamespace

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.references.lab04_fair import MyFairness
from autograder.verdict import Commitments
from gpulab.serving.policies.fair import VirtualTokens

EXERCISE = "04.fair"


class NoLift(MyFairness):
    def arrived(self, client):
        self.waits[client] += 1


class ForgetsDebt(MyFairness):
    """Whoever comes back is put below the lowest by the credit, whatever it had before."""

    def arrived(self, client):
        others = [self.counter[other] for other, waits in self.waits.items() if waits]
        if not self.waits[client] and others:
            self.counter[client] = min(others) - self.credit
        self.waits[client] += 1


class NoCredit(MyFairness):
    def __init__(self, shares, credit, rules):
        super().__init__(shares, 0, rules)


class StartsAnew(NoCredit):
    """Whoever comes back starts at the lowest: neither debt nor credit."""

    arrived = ForgetsDebt.arrived


class ToHighest(MyFairness):
    """Lifted among the others, but to the one that has had most."""

    def level(self, others):
        return max(others)

    def arrived(self, client):
        others = [self.counter[other] for other, waits in self.waits.items() if waits]
        if not self.waits[client] and others:
            self.counter[client] = max(self.counter[client], self.level(others) - self.credit)
        self.waits[client] += 1


class ToMean(ToHighest):
    def level(self, others):
        return sum(others) / len(others)


class ResetOnIdle(NoLift):
    def pick(self, waiting_clients):
        client = super().pick(waiting_clients)
        if not self.waits[client]:
            self.counter[client] = 0.0
        return client


class CountsRequests(MyFairness):
    def served(self, client, input, output):
        self.counter[client] += (input > 0) / self.shares[client]


class InputOnly(MyFairness):
    def served(self, client, input, output):
        super().served(client, input, 0)


class OutputOnly(MyFairness):
    def served(self, client, input, output):
        super().served(client, 0, output)


class NoShares(MyFairness):
    def __init__(self, shares, credit, rules):
        super().__init__(dict.fromkeys(shares, 1), credit, rules)


class ShareUpsideDown(MyFairness):
    def __init__(self, shares, credit, rules):
        super().__init__({client: 1 / share for client, share in shares.items()}, credit, rules)


class FirstCome(MyFairness):
    def pick(self, waiting_clients):
        return waiting_clients[0]


class LastCome(MyFairness):
    def pick(self, waiting_clients):
        return waiting_clients[-1]


class Idles(MyFairness):
    """Nobody is named while the one with the lowest counter of all has nothing waiting."""

    def pick(self, waiting_clients):
        least = min(self.counter, key=self.counter.get)
        return super().pick([least]) if least in waiting_clients else None


class NamesTheAbsent(MyFairness):
    def pick(self, waiting_clients):
        return super().pick(list(self.shares))


class Stub:
    def __init__(self, shares, credit, rules):
        self.shares, self.rules = shares, rules

    def arrived(self, client):
        raise NotImplementedError

    served = pick = arrived


class InTurn(FirstCome):
    def pick(self, waiting_clients):
        names = list(self.shares)
        self.last = min(
            waiting_clients, key=lambda name: (names.index(name) - getattr(self, "last", -1) - 1) % len(names)
        )
        self.last = names.index(self.last)
        return names[self.last]


class AroundVirtualTokens:
    """What gpulab ships, with one job a client that grows as the client is served."""

    def __init__(self, shares, credit, rules):
        self.policy = VirtualTokens(shares, rules["input_percent"], rules["output_percent"])
        self.jobs = {name: self.job(name) for name in shares}

    def job(self, name):
        return SimpleNamespace(id=name, tenant=name, prompt_tokens=0, computed=0, generated=0, arrival_ns=0)

    def arrived(self, client):
        pass

    def served(self, client, input, output):
        job = self.jobs[client]
        job.prompt_tokens = job.computed = job.prompt_tokens + input
        job.generated += output


class AroundCounters(AroundVirtualTokens):
    """All clients run all the while, and are charged."""

    def pick(self, waiting_clients):
        waiting = [self.jobs[name] for name in waiting_clients]
        self.policy._charge(SimpleNamespace(waiting=waiting, running=self.jobs.values()))
        return min(waiting, key=self.policy._turn).tenant


class AroundThoseWhoWait(AroundVirtualTokens):
    """Only those who wait are active, and charged."""

    def pick(self, waiting_clients):
        waiting = [self.jobs[name] for name in waiting_clients]
        self.policy._charge(SimpleNamespace(waiting=waiting, running=waiting))
        return min(waiting, key=self.policy._turn).tenant


def said(course, learner):
    cause, events = exercises()[EXERCISE].key(course, learner)
    return Commitments(learner, {"gap": 100}, {"cause": cause, "events": sorted(events)[-1:]})


FAIR = Sheet(
    EXERCISE,
    MyFairness,
    {
        "no-lift": Wrong(NoLift, 0.0, 0.20, "no-lift", "saved up"),
        "no-credit": Wrong(NoCredit, 0.0, 0.20, "no-credit"),
        "forgets-debt": Wrong(ForgetsDebt, 0.0, 0.20, "forgets-debt"),
        "starts-anew": Wrong(StartsAnew, 0.0, 0.20, "starts-anew"),
        "to-highest": Wrong(ToHighest, 0.0, 0.20, "not-to-lowest", "to what did you lift"),
        "to-mean": Wrong(ToMean, 0.0, 0.20, "not-to-lowest", "to what did you lift"),
        "reset-on-idle": Wrong(ResetOnIdle, 0.0, 0.20, "reset-on-idle"),
        "counts-requests": Wrong(CountsRequests, 0.0, 0.20, "counts-requests", "how many tokens"),
        "input-only": Wrong(InputOnly, 0.0, 0.20, "input-only"),
        "output-only": Wrong(OutputOnly, 0.0, 0.20, "output-only"),
        "no-shares": Wrong(NoShares, 0.0, 0.20, "no-shares"),
        "share-upside-down": Wrong(ShareUpsideDown, 0.0, 0.20, "share-upside-down"),
        "first-come": Wrong(FirstCome, 0.0, 0.20, "first-come"),
        "last-come": Wrong(LastCome, 0.0, 0.20, "uneven"),
        "idles": Wrong(Idles, 0.0, 0.20, "idle"),
        "names-the-absent": Wrong(NamesTheAbsent, 0.0, 0.20, "not-waiting"),
    },
    said=said,
    stub=Stub,
    constants=(FirstCome, LastCome, InTurn),
    shortcuts=(AroundCounters, AroundThoseWhoWait),
)

SHEETS = [FAIR]
