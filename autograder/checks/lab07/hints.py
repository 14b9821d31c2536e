"""Hints and blocks of lab 07."""

HINTS = {
    "07.plan": (
        "Look at the fourth GPU: who stood in front of a chat that broke its promise, and with how many blocks?",
        "# what is left of a GPU for blocks: memory, less weights, less context\n"
        "# who may use a GPU whose own tenant is silent?\n"
        "# whose prompts can wait, and how many of them may be let in at once?\n"
        "# a share holds the tenant's longest request, and the rest is chat's\n"
        "# expect: what try_plan says, as a mean over its three traces, on the weakest of several practices",
        'blocks("07.plan") gives the lines of `plan` to put in order, with two that do not belong.',
    ),
    "07.break": (
        "Which request makes others wait if it goes first, and which one cannot wait itself?",
        "# a few prompts that take long, just before many that are promised a first token soon\n"
        "# not so much that no order serves it: look at the bound\n"
        "# because: the first request whose promise the worst rule breaks",
        'blocks("07.break") gives the lines of `workload` to put in order, with two that do not belong.',
    ),
}

BLOCKS = {
    "07.plan": (
        {
            "a": 'room = case["memory_bytes"] - case["weights_bytes"] - case["context_bytes"]',
            "b": 'whole = room // case["block_bytes"]',
            "c": 'whole = case["memory_bytes"] * 9 // 10 // case["block_bytes"]',
            "d": 'code, batch = (case["tenants"][t]["longest_blocks"] * n // 8 for t, n in (("code", 18), ("batch", 9)))',
            "e": 'serves = {"chat": whole - code - batch, "code": code, "batch": batch}',
            "f": 'devices = [{"serves": serves, "max_jobs": case["most_jobs"]}] * case["devices"]',
            "g": 'devices = [{"serves": {t: whole}, "max_jobs": case["most_jobs"]} for t in case["tenants"]]',
            "h": 'return {"devices": devices, "router": "least-outstanding", "expect": what_try_plan_said}',
        },
        "abdefh",
    ),
    "07.break": (
        {
            "a": "chats = one chat of the least lengths every few tens of milliseconds",
            "b": "folder = a dozen of batch's longest documents, all half a second later",
            "c": "folder = two hundred of code's longest prompts, all at 0 ms",
            "d": "rows = chats and folder, sorted by arrival",
            "e": "if try_workload(rows, rule) is below 80 % for two of the four rules:",
            "f": "    return rows",
            "g": "if try_workload(rows, rule) is below 80 % for all nine rules:",
            "h": "make the folder larger and try again",
        },
        "abdefh",
    ),
}
