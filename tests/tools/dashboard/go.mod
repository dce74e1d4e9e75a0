module kubepkg.dev/tests/dashboard

go 1.24

tool kubepkg.dev/tests/dashboard

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
