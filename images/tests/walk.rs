//! What is found in documents, where, and how sure it is.

use kubepkg_images::{Findings, Rules, walk};

fn found(text: &str) -> Findings {
    walk("x.yaml", text, &Rules::built_in())
}

/// How, image and path of everything found.
#[track_caller]
fn lines(text: &str) -> Vec<String> {
    let findings = found(text);
    assert!(findings.unread.is_empty(), "{:?}", findings.unread);
    let mut lines: Vec<String> = findings
        .sightings
        .iter()
        .map(|seen| format!("{} {} {}", seen.how, seen.image, seen.place.path))
        .collect();
    lines.sort();
    lines
}

#[test]
fn containers_at_any_depth_in_any_object() {
    let text = "
apiVersion: example.com/v1
kind: Stack
metadata: {name: a}
spec:
  deep:
  - template:
      spec:
        containers: [{name: c, image: nginx}]
        initContainers: [{name: i, image: quay.io/a/init:1}]
        ephemeralContainers: [{name: e, image: 'busybox:1.36'}]
        volumes: [{name: v, image: {reference: 'quay.io/a/files:2', pullPolicy: Always}}]
";
    assert_eq!(
        lines(text),
        [
            "container docker.io/library/busybox:1.36 spec.deep[0].template.spec.ephemeralContainers[0].image",
            "container docker.io/library/nginx:latest spec.deep[0].template.spec.containers[0].image",
            "container quay.io/a/files:2 spec.deep[0].template.spec.volumes[0].image.reference",
            "container quay.io/a/init:1 spec.deep[0].template.spec.initContainers[0].image",
        ]
    );
    let place = &found(text).sightings[0].place;
    assert_eq!(
        (place.source.as_str(), place.object.as_str()),
        ("x.yaml", "Stack a")
    );
}

#[test]
fn a_container_whose_image_is_filled_in_later_is_told() {
    let findings = found(
        "kind: Pod\nspec:\n  containers:\n  - {image: 'quay.io/a/b:${TAG}'}\n  - {image: \
         'quay.io/a/*'}\nother: {image: '${OTHER}'}\n",
    );
    assert_eq!(findings.sightings, []);
    assert_eq!(findings.unread.len(), 1, "{:?}", findings.unread);
    let why = &findings.unread[0].why;
    assert!(
        why.contains("spec.containers[0].image: \"quay.io/a/b:${TAG}\""),
        "{why}"
    );
}

#[test]
fn variables_and_arguments() {
    let text = "
kind: Deployment
spec:
  containers:
  - image: quay.io/a/operator:1
    command: [/manager, --leader-elect]
    args:
    - --acme-http01-solver-image=quay.io/a/solver:1
    - --executor-image
    - quay.io/a/exec:1
    - --prometheus-config-reloader=quay.io/a/reloader:v0.9
    - --prometheus-default-base-image=quay.io/a/prom
    - --listen=:8080
    - --config=/etc/x.yaml
    - --repo=https://github.com/a/b
    - '--message=the image quay.io/a/no:1 is old'
    - |
      # kubectl run --image=quay.io/a/comment:1
      kubectl run x --image=quay.io/a/script:1
    env:
    - {name: RELATED_IMAGE_PROXY, value: 'quay.io/a/proxy@sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a'}
    - {name: KAFKA_IMAGES, value: \"3.8=quay.io/a/kafka:3.8\\n3.9=quay.io/a/kafka:3.9\\n\"}
    - {name: SIDECAR, value: 'quay.io/a/sidecar:v2'}
    - {name: IMAGE_PULL_POLICY, value: Always}
    - {name: INIT_IMAGE_REPO, value: quay.io/a/init}
    - {name: INIT_IMAGE_TAG, value: '7'}
    - {name: URL, value: 'http://web.default.svc:8080'}
    - {name: FROM, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
";
    assert_eq!(
        lines(text),
        [
            "argument quay.io/a/exec:1 spec.containers[0].args[2]",
            "argument quay.io/a/reloader:v0.9 spec.containers[0].args[3]",
            "argument quay.io/a/script:1 spec.containers[0].args[9]",
            "argument quay.io/a/solver:1 spec.containers[0].args[0]",
            "container quay.io/a/operator:1 spec.containers[0].image",
            "environment quay.io/a/init:7 spec.containers[0].env[4].value",
            "environment quay.io/a/kafka:3.8 spec.containers[0].env[1].value",
            "environment quay.io/a/kafka:3.9 spec.containers[0].env[1].value",
            "environment quay.io/a/proxy@sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a spec.containers[0].env[0].value",
            "environment quay.io/a/sidecar:v2 spec.containers[0].env[2].value",
            "possible quay.io/a/prom:latest spec.containers[0].args[4]",
        ]
    );
}

#[test]
fn fields_of_known_kinds_and_fields_called_image() {
    let text = "
apiVersion: monitoring.coreos.com/v1
kind: Prometheus
spec: {version: v3.1.0, thanos: {image: 'quay.io/thanos/thanos:v0.37.0', version: v0.30.0}}
---
apiVersion: postgresql.cnpg.io/v1
kind: Cluster
spec: {imageName: postgres}
---
apiVersion: elasticsearch.k8s.elastic.co/v1
kind: Elasticsearch
spec: {version: 8.17.0}
---
apiVersion: kubevirt.io/v1
kind: VirtualMachine
spec: {template: {spec: {volumes: [{containerDisk: {image: 'docker://quay.io/a/disk:9'}}]}}}
---
apiVersion: kafka.strimzi.io/v1beta2
kind: KafkaConnect
spec: {image: 'quay.io/a/connect:1', build: {output: {image: 'quay.io/mine/built:1'}}}
---
apiVersion: example.com/v1
kind: Own
metadata: {annotations: {example.com/proxyImage: 'quay.io/a/annotated:1'}}
spec:
  image: busybox
  sidecarImage: quay.io/a/side:1
  logoImage: https://example.com/logo.png
  images: ['quay.io/a/one:1', {repository: quay.io/a/two, tag: v2}]
  proxy: {image: {registry: quay.io, repository: a/proxy, tag: 1.27.0}}
  git: {repository: a/b, branch: main}
  other: quay.io/a/other:v1
  text: see quay.io/a/sentence:v1
";
    assert_eq!(
        lines(text),
        [
            "field docker.elastic.co/elasticsearch/elasticsearch:8.17.0 spec.version",
            "field docker.io/library/postgres:latest spec.imageName",
            "field quay.io/a/annotated:1 metadata.annotations[\"example.com/proxyImage\"]",
            "field quay.io/a/connect:1 spec.image",
            "field quay.io/a/disk:9 spec.template.spec.volumes[0].containerDisk.image",
            "field quay.io/a/one:1 spec.images[0]",
            "field quay.io/a/proxy:1.27.0 spec.proxy.image",
            "field quay.io/a/side:1 spec.sidecarImage",
            "field quay.io/a/two:v2 spec.images[1]",
            "field quay.io/prometheus/prometheus:v3.1.0 spec.version",
            "field quay.io/thanos/thanos:v0.37.0 spec.thanos.image",
            "possible docker.io/library/busybox:latest spec.image",
            "text quay.io/a/other:v1 spec.other",
        ]
    );
}

#[test]
fn documents_in_config_maps_and_secrets() {
    let text = "
kind: ConfigMap
metadata: {name: a}
data:
  RELATED_IMAGE_A: quay.io/a/plain:1
  note: the image quay.io/a/sentence:1
  pod.yaml: |
    kind: Pod
    spec: {containers: [{image: quay.io/a/pod}]}
    ---
    {kind: Pod, spec: {containers: [{image: quay.io/a/second:1}]}}
  config.toml: |
    [runner]
    image = 'alpine:3.20'
    url = 'https://gitlab.example.com/'
  inner.json: '{\"sidecarImage\": \"quay.io/a/json:1\"}'
---
kind: Secret
data:
  x.yaml: aW1hZ2U6IHF1YXkuaW8vYS9zZWNyZXQ6MQpiOiAxCg==
  binary: /////w==
stringData:
  y.yaml: |
    image: quay.io/a/string:1
    b: 1
";
    assert_eq!(
        lines(text),
        [
            "container quay.io/a/pod:latest data[\"pod.yaml\"]: spec.containers[0].image",
            "container quay.io/a/second:1 data[\"pod.yaml\"]: spec.containers[0].image",
            "environment quay.io/a/plain:1 data.RELATED_IMAGE_A",
            "field docker.io/library/alpine:3.20 data[\"config.toml\"]: line 2",
            "field quay.io/a/json:1 data[\"inner.json\"]: sidecarImage",
            "field quay.io/a/secret:1 data[\"x.yaml\"]: image",
            "field quay.io/a/string:1 stringData[\"y.yaml\"]: image",
        ]
    );
    assert!(
        found(text)
            .sightings
            .iter()
            .take(3)
            .all(|seen| seen.place.object == "ConfigMap a")
    );
}

#[test]
fn lists_of_objects_and_packages() {
    let text = "
kind: List
items:
- {kind: Pod, metadata: {name: p}, spec: {containers: [{image: 'quay.io/a/b:1'}]}}
---
apiVersion: kubepkg.dev/v1
kind: PackageSource
metadata: {name: web}
spec: {images: ['quay.io/a/web:1']}
";
    assert_eq!(
        lines(text),
        [
            "container quay.io/a/b:1 items[0].spec.containers[0].image",
            "listed quay.io/a/web:1 spec.images[0]"
        ]
    );
    assert_eq!(found(text).sightings[0].place.object, "Pod p");
}

#[test]
fn a_definition_says_only_what_its_objects_would_get() {
    let text = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
spec:
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
              image: {type: string, default: 'quay.io/a/default:1', description: 'e.g. quay.io/a/example:1'}
              containers: {type: array, items: {properties: {image: {type: string}}}}
";
    assert_eq!(
        lines(text),
        ["possible quay.io/a/default:1 spec.versions[0].spec.image"]
    );
}

#[test]
fn a_document_that_cannot_be_read_is_told_and_its_lines_are_looked_at() {
    let findings = found(
        "kind: Pod\nspec: {containers: [{image: 'quay.io/a/good:1'}]}\n---\n# Source: web/templates/bad.yaml\nkind: Pod\nspec:\n  image: quay.io/a/bad:1\n  x: [\n---\nkind: Pod\nspec: {containers: [{image: 'quay.io/A/wrong'}, {image: auto}]}\n",
    );
    let images: Vec<String> = findings
        .sightings
        .iter()
        .map(|seen| format!("{} {}", seen.how, seen.image))
        .collect();
    assert_eq!(
        images,
        ["container quay.io/a/good:1", "possible quay.io/a/bad:1"]
    );
    assert_eq!(findings.unread.len(), 2, "{:?}", findings.unread);
    assert_eq!(findings.unread[0].source, "web/templates/bad.yaml");
    assert!(findings.unread[0].line >= 8, "{:?}", findings.unread);
    assert!(
        findings.unread[1].why.contains("quay.io/A/wrong"),
        "{:?}",
        findings.unread
    );
}

#[test]
fn what_only_looks_like_an_image_is_none() {
    let text = "
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: a
  labels: {image: 'quay.io/a/label:1', helm.sh/chart: web-1.2.3}
  annotations: {example.com/docs: 'https://example.com/image:v1', checksum/config: 01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b}
rules: [{apiGroups: [image.openshift.io], resources: [images, imagestreams]}]
---
kind: NetworkPolicy
spec: {cidr: 10.0.0.0/8, host: 'web.default.svc.cluster.local:8080', file: /etc/x/image.yaml, module: golang.org/x/net, version: v1.2.3}
---
apiVersion: kyverno.io/v1
kind: ClusterPolicy
spec: {rules: [{verifyImages: [{imageReferences: ['quay.io/a/judged:1']}]}]}
---
kind: Pod
spec: {containers: [{name: a, imagePullPolicy: Always}], imagePullSecrets: [{name: quay}]}
";
    assert_eq!(lines(text), [""; 0]);
}
