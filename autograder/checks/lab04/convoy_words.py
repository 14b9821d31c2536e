"""What 04.convoy says: its rule, a question for each misconception, hints."""

RULE = (
    "First come, first served, a request waits for the rest of whoever runs and for all who came before: the mean grows "
    "with the square of the lengths. Shared, it grows with load and mean alone."
)
QUESTIONS = {
    "mean-only": "The wait needs the mean of the squares of the lengths, not the square of their mean, {mean} ms. "
    "Who meets a long request when it arrives?",
    "mm1": "That is the mean for one exponential of mean {mean} ms. Here {short} and {long} ms are mixed: what does "
    "that do to the mean of the squares?",
    "constant-lengths": "Each class is exponential: the mean of its squares is twice the square of its mean. Did you take "
    "every short one for {short} ms exactly?",
    "ps-needs-variance": "Shared, nobody stands behind a long one. Which two numbers does the mean response depend on then?",
    "wait-without-service": "You gave the wait. When does the response end: when a request begins to run, or when it is answered?",
    "it-is-idle-time": "Gauge 1 says that the server is as busy either way, and both means are above {mean} ms. Which "
    "gauge moved?",
    "other-mean": "Take the worked mix (9 in 10 of mean 1, 1 in 10 of mean 20, load 0.8): does your way give 59.3 and 14.5?",
    "longest-waiter-is-head": "Request {waiter} waited longest, {waited} ms. Who ran meanwhile?",
    "no-head": "The head of a convoy is one request of the timeline. Which one runs while most others wait?",
    "other-head": "While request {head} ran, how many stood behind it? Is there one behind which more stood?",
    "arrived-while-it-ran": "You have those who came while request {head} ran. Who was there already when it began?",
    "everybody-who-waited": "Some of these did not wait while request {head} ran. Who stood there then?",
    "everybody-after-it": "Some of these came when request {head} had ended. Which ones can it have kept waiting?",
    "chats-only": "Is a long request that stands behind {head} not in its convoy?",
    "other-convoy": "Look at the lane of request {head}: which other lanes are thin at some moment while it is thick?",
    "summaries-only": "Compare the ends of both pictures for the short ones too: is none of them answered later?",
    "better-for-worse": "These are answered no later than before. Who pays for that?",
    "everybody-slower": "Sharing makes no service shorter. Does it make every wait longer, too?",
    "waits-at-all": "When the server is shared everybody stands still now and then. Who is answered later than first come, "
    "first served?",
    "other-losers": "For each request take its end in the second picture minus its end in the first. Where is it above 0?",
}
HINTS = (
    "Look at the lanes: find a thick bar that has many thin ones under it. Who runs there, and who waits?",
    "# 1. E[S]: the mean of both classes, by how many there are of each\n"
    "# 2. E[S^2]: an exponential's is twice the square of its mean; then mix as in 1\n"
    "# 3. first come: rate * E[S^2] / (2 (1 - load)) + E[S], with rate = load / E[S]\n"
    "# 4. shared: E[S] / (1 - load)\n"
    "# 5. timeline: for each request who ran while it waited; then compare the ends of both pictures",
)
