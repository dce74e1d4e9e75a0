// Command dashboard reads a dashboard with the types Grafana's own library makes from its schema,
// strictly: a member that is unknown, missing or of another type is an error, in panels too.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

var known = map[string]bool{"stat": true, "timeseries": true, "table": true}

func main() {
	plugins.RegisterDefaultPlugins()
	bytes, err := os.ReadFile(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var read dashboard.Dashboard
	said := ""
	if err := read.UnmarshalJSONStrict(bytes); err != nil {
		said = err.Error() // an empty list of errors is not nil
	}
	// the library lets pass kinds of panels it has no type for
	var kinds struct{ Panels []struct{ Type string } }
	if err := json.Unmarshal(bytes, &kinds); err != nil {
		said += err.Error()
	}
	for _, panel := range kinds.Panels {
		if !known[panel.Type] {
			said += fmt.Sprintf("%q is no kind of panel that is known here\n", panel.Type)
		}
	}
	if said == "" {
		if err := read.Validate(); err != nil {
			said = err.Error()
		}
	}
	if said != "" || len(read.Panels) == 0 {
		fmt.Fprintf(os.Stderr, "%s: %d panels\n%s\n", os.Args[1], len(read.Panels), said)
		os.Exit(1)
	}
}
