"""The sheet of 07.plan."""

from sheets import Sheet, Wrong

from autograder.checks import exercises
from autograder.references.lab07_staff import plan
from autograder.verdict import Commitments


def otherwise(change):
    """The reference, changed: ``change`` gets its devices (each its own), the plan and the case."""

    def wrong(case):
        made = plan(case)
        made["devices"] = [{**device, "serves": dict(device["serves"])} for device in made["devices"]]
        change(made, case)
        return made

    return wrong


def whole(case):
    return (case["memory_bytes"] - case["weights_bytes"] - case["context_bytes"]) // case["block_bytes"]


def everywhere(made, **serves):
    for device in made["devices"]:
        device["serves"] = dict(serves)


def alone(made, case, *tenants):
    made["devices"] = [{"serves": {tenant: whole(case)}, "max_jobs": 256} for tenant in tenants]


@otherwise
def ninety_percent(made, case):
    blocks = case["memory_bytes"] * 9 // 10 // case["block_bytes"]
    everywhere(made, chat=blocks - 2000, code=1300, batch=700)


@otherwise
def one_each(made, case):
    alone(made, case, "chat", "code", "batch")
    made["devices"].append({"serves": dict.fromkeys(case["tenants"], whole(case) // 3), "max_jobs": 256})
    made["router"] = "round-robin"


@otherwise
def mean_rate(made, case):
    alone(made, case, "chat", "chat", "code", "batch")


@otherwise
def share_too_small(made, case):
    everywhere(made, chat=20_000, code=500, batch=600)


@otherwise
def batch_unbounded(made, case):
    everywhere(made, chat=6_000, code=6_000, batch=20_000)


@otherwise
def forgets_batch(made, case):
    everywhere(made, chat=20_000, code=2_000)


@otherwise
def five_devices(made, case):
    made["devices"].append(made["devices"][0])


@otherwise
def three_devices(made, case):
    made["devices"].pop()


@otherwise
def promise_everything(made, case):
    made["expect"] = {tenant: 100 for tenant in case["tenants"]}


@otherwise
def shares_not_percent(made, case):
    made["expect"] = {tenant: 0.9 for tenant in case["tenants"]}


@otherwise
def no_router(made, case):
    del made["router"]


def not_solved(case):
    raise NotImplementedError("plan")


def said(course, learner):
    cause, events = exercises()["07.plan"].key(course, learner)
    return Commitments(learner, {"chat_percent": 70}, {"cause": cause, "events": sorted(events)[:3]})


SHEETS = [
    Sheet(
        "07.plan",
        right=plan,
        said=said,
        stub=not_solved,
        wrong={
            "kv-is-90-percent": Wrong(ninety_percent, 0.0, 0.0, "over-memory", "beside the blocks"),
            "one-each": Wrong(one_each, 0.24, 0.24, "one-each", "other GPUs"),
            "mean-rate": Wrong(mean_rate, 0.24, 0.56, "one-each", "other GPUs"),
            "slice-too-small": Wrong(share_too_small, 0.0, 0.0, "share-too-small"),
            "batch-unbounded": Wrong(batch_unbounded, 0.24, 0.7, "batch-unbounded"),
            "forgets-batch": Wrong(forgets_batch, 0.0, 0.0, "unserved"),
            "five-devices": Wrong(five_devices, 0.0, 0.0, "over-budget"),
            "three-devices": Wrong(three_devices, 0.24, 0.7, "idle-gpu"),
            "promise-everything": Wrong(promise_everything, 0.8, 0.8, "promise-everything"),
            "shares-not-percent": Wrong(shares_not_percent, 0.8, 0.8, "promise-everything"),
            "no-router": Wrong(no_router, 0.0, 0.0, "wrong-form"),
        },
        constants=(
            lambda case: None,
            lambda case: {"devices": [], "router": "round-robin", "expect": {}},
        ),
        cuts=(0.3, 0.5, 0.75, 0.9),
    )
]
