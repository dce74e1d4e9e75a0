// Command peer makes the library calls that the existing program makes for a plain-key index:
// one ed25519 verification over the bytes, sigs.k8s.io/yaml into typed structs, and for every
// version its spec written by encoding/json and hashed. Nothing else of it is here.
package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

type index struct {
	Kind      string             `json:"kind"`
	Generated string             `json:"generated,omitempty"`
	Packages  map[string]pkgItem `json:"packages"`
}

type pkgItem struct {
	Description string    `json:"description,omitempty"`
	Home        string    `json:"home,omitempty"`
	Versions    []version `json:"versions"`
}

type version struct {
	Version string `json:"version"`
	Build   int32  `json:"build,omitempty"`
	Digest  string `json:"digest"`
	Spec    spec   `json:"spec"`
}

// The members in the order the digest wants; what no generated package has is left out.
type spec struct {
	Version   string    `json:"version,omitempty"`
	Build     int32     `json:"build,omitempty"`
	Provides  []string  `json:"provides,omitempty"`
	Conflicts []string  `json:"conflicts,omitempty"`
	CRDs      []string  `json:"crds,omitempty"`
	Rollback  *rollback `json:"rollback,omitempty"`
	Variants  []variant `json:"variants,omitempty"`
	Images    []string  `json:"images,omitempty"`
}

type rollback struct {
	Safe bool `json:"safe,omitempty"`
}

type variant struct {
	Name       string        `json:"name"`
	Requires   []requirement `json:"requires,omitempty"`
	Components []component   `json:"components,omitempty"`
}

type requirement struct {
	Package    string `json:"package,omitempty"`
	Capability string `json:"capability,omitempty"`
	Version    string `json:"version,omitempty"`
	Optional   bool   `json:"optional,omitempty"`
}

type component struct {
	Name    string   `json:"name"`
	Chart   *chart   `json:"chart,omitempty"`
	Install *install `json:"install,omitempty"`
}

type chart struct {
	Repository string `json:"repository"`
	Name       string `json:"name"`
	Version    string `json:"version"`
	Digest     string `json:"digest,omitempty"`
}

type install struct {
	ReleaseName string   `json:"releaseName,omitempty"`
	Namespace   string   `json:"namespace,omitempty"`
	Privileged  bool     `json:"privileged,omitempty"`
	DependsOn   []string `json:"dependsOn,omitempty"`
	UpgradeCRDs string   `json:"upgradeCRDs,omitempty"`
}

func read(dir string) (int, error) {
	text, err := os.ReadFile(dir + "/index.yaml")
	if err != nil {
		return 0, err
	}
	signature, err := os.ReadFile(dir + "/index.yaml.sig")
	if err != nil {
		return 0, err
	}
	public, err := os.ReadFile(dir + "/release.pub")
	if err != nil {
		return 0, err
	}
	block, _ := pem.Decode(public)
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return 0, err
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(signature)))
	if err != nil {
		return 0, err
	}
	if !ed25519.Verify(parsed.(ed25519.PublicKey), text, raw) {
		return 0, fmt.Errorf("the signature does not hold")
	}
	var found index
	if err := yaml.Unmarshal(text, &found); err != nil {
		return 0, err
	}
	versions := 0
	for name, pkg := range found.Packages {
		for _, v := range pkg.Versions {
			canonical, err := json.Marshal(v.Spec)
			if err != nil {
				return 0, err
			}
			sum := sha256.Sum256(canonical)
			if "sha256:"+hex.EncodeToString(sum[:]) != v.Digest {
				return 0, fmt.Errorf("%s %s does not match its digest", name, v.Version)
			}
			versions++
		}
	}
	return versions, nil
}

func main() {
	versions, err := read(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
	fmt.Println(versions)
}
