# shellcheck shell=bash
# Servers that limit how much may be fetched.
echo "== limits"

wanted() { sed 's|/v2/app/[a-z]*/blobs/|blob |' "$1.requests" | sort; }
# As many requests as where there is no limit, and those that were refused.
no_more_than_needed() {
    forget front
    brings free "${ca[@]}"
    answered front free >free.requests
    forget front
    brings limited "${ca[@]}" --per-host 16
    answered front limited >all.requests
    grep '^429 ' all.requests >refused.requests
    grep -v '^429 ' all.requests >answered.requests
    wc -l <refused.requests
    # which of two images asks for the layer they share is a matter of chance
    diff <(wanted free) <(wanted answered)
    # blobs and manifests by digest come once
    cut -d' ' -f3 answered.requests | grep -E '/(blobs|manifests)/sha256:' | sort | uniq -d | tee twice
    [ ! -s twice ]
}
check 'a limited server: everything comes, no request more than needed' no_more_than_needed

told_the_limit() {
    tells refusing.example.com 'limits how much may be fetched' '100 requests in 6 h' "$1" \
        'You have reached your pull rate limit' 'docker login refusing.example.com' --per-host
}
# A second is waited for; then it is told what holds.
always_refused() {
    forget front
    refused 5 patient "${ca[@]}"
    told_the_limit 'asks to wait 1 s, until '
    # five tries of each thing that was asked for
    answered front refusing | sort | uniq -c | awk '$1 > 5 { print; bad = 1 } END { exit bad }'
}
# More than an hour is not: it says so at once.
for_an_hour() {
    forget front
    refused 5 refusing "${ca[@]}"
    told_the_limit 'asks to wait 1 h 5 min, until '
    answered front refusing | sort | uniq -c | awk '$1 > 1 { print; bad = 1 } END { exit bad }'
}
check 'a server that only ever refuses: the limit, when it ends, how to log in' always_refused
check 'a server that refuses for an hour: at once' for_an_hour
