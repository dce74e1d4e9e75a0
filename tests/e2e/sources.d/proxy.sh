# shellcheck shell=bash
# HTTP proxies. The registry lies in a network of its own, and only the proxies have a way there.
echo "== HTTP proxies"

# far COMMAND…: in the other network.
far() { nsenter --net=/run/netns/far "$@"; }
two_networks() {
    ip netns add far
    ip link add near type veth peer name far netns far
    ip address add 10.9.0.1/24 dev near
    ip link set near up
    far ip link set lo up
    far ip address add 10.9.0.2/24 dev far
    far ip link set far up
    far ip address add 10.8.0.1/32 dev lo
}

# proxy NAME PORT LINE…
proxy() {
    local name=$1 port=$2
    shift 2
    printf '%s\n' 'User root' 'Group root' 'Listen 10.9.0.2' "Port $port" 'Timeout 60' 'MaxClients 64' 'Allow 10.9.0.0/24' \
        'LogLevel Connect' "PidFile \"$WORK/$name.pid\"" "$@" >"$name.conf"
    daemon "$name" nsenter --net=/run/netns/far tinyproxy -d -c "$name.conf"
    await "$name" eval "curl -s --max-time 2 -o /dev/null http://10.9.0.2:$port/"
}
proxies() {
    proxy helpful 3128 'ConnectPort 443'
    proxy asking 3129 'ConnectPort 443' "BasicAuth proxyuser proxy-p4ss"
    # no other port than this one is connected to
    proxy strict 3130 'ConnectPort 8443'
}
far_registry() {
    nginx_settings far "
    server { listen 10.8.0.1:443 ssl; server_name far.example.com; ssl_certificate $WORK/pki/far.example.com.pem; ssl_certificate_key $WORK/pki/far.example.com.key;
        location / { proxy_pass http://127.0.0.1:5000; } }
    server { listen 10.8.0.1:80; server_name plain.example.com; location / { proxy_pass http://127.0.0.1:5000; } }" >far.conf
    daemon far_open nsenter --net=/run/netns/far docker-registry serve "$WORK/open.yml"
    daemon far nsenter --net=/run/netns/far nginx -e "$WORK/log/far" -c "$WORK/far.conf"
    await far_open far curl -fsS --max-time 2 -o /dev/null http://127.0.0.1:5000/v2/
    await far far curl -fsS --max-time 2 --cacert pki/own.pem -o /dev/null https://far.example.com/v2/
}

through() { HTTPS_PROXY=http://10.9.0.2:3128 brings far "${ca[@]}"; }
through_lower_case() { https_proxy=http://10.9.0.2:3128 brings far "${ca[@]}"; }
plain_through() { HTTP_PROXY=http://10.9.0.2:3128 brings plain --plain-http plain.example.com; }
all_through() { ALL_PROXY=http://10.9.0.2:3128 brings far "${ca[@]}"; }
not_without() {
    refused 5 far "${ca[@]}"
    tells far.example.com HTTPS_PROXY
}
# Nobody listens at that proxy: what is fetched went past it.
past_it() {
    HTTPS_PROXY=http://10.9.0.2:9 NO_PROXY=registry.example.com,10.0.0.0/8 brings registry "${ca[@]}"
    HTTPS_PROXY=http://10.9.0.2:9 no_proxy=.example.com brings registry "${ca[@]}"
    HTTPS_PROXY=http://10.9.0.2:9 NO_PROXY='*' brings registry "${ca[@]}"
}
nobody_there() {
    HTTPS_PROXY=http://10.9.0.2:9 NO_PROXY=other.example.com refused 5 registry "${ca[@]}"
    tells registry.example.com 10.9.0.2:9 HTTPS_PROXY
}
# no_proxy_secret: nothing of the proxy's password is told.
no_proxy_secret() { fails grep -F -e proxy-p4ss -e "$(printf proxyuser:proxy-p4ss | base64)" -e 'not-it' said; }
not_logged_in() {
    HTTPS_PROXY=http://10.9.0.2:3129 refused 5 far "${ca[@]}"
    tells far.example.com 10.9.0.2:3129 'user and password' HTTPS_PROXY
}
wrongly_logged_in() {
    HTTPS_PROXY=http://proxyuser:not-it@10.9.0.2:3129 refused 5 far "${ca[@]}"
    tells far.example.com 10.9.0.2:3129 HTTPS_PROXY
    no_proxy_secret
}
logged_in_says_nothing() {
    HTTPS_PROXY=http://proxyuser:proxy-p4ss@10.9.0.2:3129 brings far "${ca[@]}"
    no_proxy_secret
}
plain_not_logged_in() {
    HTTP_PROXY=http://10.9.0.2:3129 refused 5 plain --plain-http plain.example.com
    tells plain.example.com 10.9.0.2:3129 'user and password' HTTP_PROXY
}
not_connected() {
    HTTPS_PROXY=http://10.9.0.2:3130 refused 5 far "${ca[@]}"
    tells far.example.com 10.9.0.2:3130 HTTPS_PROXY NO_PROXY
}

if two_networks >log/networks 2>&1; then
    must 'a registry in another network' far_registry
    must 'proxies with a way there' proxies
    check 'without a proxy there is no way' not_without
    check 'through the one in HTTPS_PROXY' through
    check 'through the one in https_proxy' through_lower_case
    check 'plain HTTP through the one in HTTP_PROXY' plain_through
    check 'through the one in ALL_PROXY' all_through
    check 'past it by NO_PROXY: a name, a domain, all' past_it
    check 'a proxy that is not there is named' nobody_there
    check 'a proxy with user and password, of which nothing is told' logged_in_says_nothing
    check 'one that wants a password is named' not_logged_in
    check 'one that takes our password for wrong is named, the password is not' wrongly_logged_in
    check 'plain HTTP: one that wants a password' plain_not_logged_in
    check 'one that refuses to connect is named' not_connected
else
    cat log/networks
    lacking 'network namespaces with veth devices, for proxies'
fi
