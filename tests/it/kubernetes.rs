//! The manifests of `samples/kubernetes`: that the parts which have to agree do, and that the
//! mirror takes the settings in them.

use std::path::Path;

use kubepkg_core::yaml::Limits;
use kubepkg_core::yaml::strict;
use serde_json::Value;

use crate::command::Scratch;

/// What stopping takes besides `stopWithin`: see `the_unit_calls_what_there_is` in `service`.
const AFTER_STOP: u64 = 16;

fn sample(name: &str) -> String {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
    std::fs::read_to_string(samples.join(name)).unwrap()
}

/// All objects of a manifest: no key twice, nothing that readers of YAML disagree on.
fn objects(file: &str) -> Vec<Value> {
    let text = sample(file);
    let documents = strict::documents(&text, &Limits::default()).unwrap();
    let read = |document: &strict::Document<'_>| document.read().unwrap();
    documents.iter().map(read).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> &'a Value {
    let mut found = objects.iter().filter(|object| object["kind"] == kind);
    let first = found.next().unwrap_or_else(|| panic!("no {kind}"));
    assert!(found.next().is_none(), "two of kind {kind}");
    first
}

fn named<'a>(list: &'a Value, name: &str) -> &'a Value {
    let all = list.as_array().unwrap();
    let found = all.iter().find(|entry| entry["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {list}"))
}

/// The one pod and the one container of a workload.
fn pod(workload: &Value) -> (&Value, &Value) {
    let pod = &workload["spec"]["template"]["spec"];
    let containers = pod["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    (pod, &containers[0])
}

fn words(list: &Value) -> Vec<&str> {
    let all = list.as_array().unwrap();
    all.iter().map(|word| word.as_str().unwrap()).collect()
}

/// The settings in the manifest, and with the lines that stand behind a # in their place.
fn settings(objects: &[Value]) -> (String, String) {
    let text = of_kind(objects, "ConfigMap")["data"]["mirror.yaml"].as_str();
    let text = text.unwrap().to_owned();
    let mut other = String::new();
    let mut left_out = false;
    for line in text.lines() {
        left_out = line.starts_with("selfSigned") || (left_out && line.starts_with("- "));
        if !left_out {
            let line = line.strip_prefix("# tls").map_or(line, |_| &line[2..]);
            other.push_str(line);
            other.push('\n');
        }
    }
    assert!(other.contains("\ntlsCert: ") && other.contains("\ntlsKey: "));
    (text, other)
}

#[test]
fn the_mirror_takes_the_settings() {
    let objects = objects("kubernetes/mirror.yaml");
    let (_, container) = pod(of_kind(&objects, "Deployment"));
    let call = words(&container["args"]);
    let scratch = Scratch::new();
    // as in the pod, but that it ends
    let call: Vec<&str> = call
        .iter()
        .map(|word| word.strip_prefix("/etc/kubepkg/").unwrap_or(word))
        .chain(["--check"])
        .collect();
    assert!(call.contains(&"mirror.yaml"), "{call:?}");
    let here = |text: &str| {
        text.replace("/data/", "data/")
            .replace("/tls/", "tls/")
            .replace("0.0.0.0:5000", "127.0.0.1:0")
    };
    let (own, yours) = settings(&objects);
    scratch.write("mirror.yaml", here(&own));
    let said = scratch.run(&call).ok().stdout;
    assert!(said.contains("https://127.0.0.1:0"), "{said}");
    assert!(said.contains("a CA and a certificate"), "{said}");
    assert!(!scratch.path("data").exists(), "--check changes nothing");

    scratch.write("mirror.yaml", here(&yours));
    // the Secret is not there yet: that is what is said, with the place it is looked for
    scratch
        .run(&call)
        .fails(4, "cannot read the certificate")
        .says("tls/tls.crt");
}

#[test]
fn ports_paths_and_names_agree() {
    let objects = objects("kubernetes/mirror.yaml");
    let deployment = of_kind(&objects, "Deployment");
    let (pod, container) = pod(deployment);
    let (settings, _) = settings(&objects);
    let port = named(&container["ports"], "registry")["containerPort"].as_u64();
    let port = port.unwrap();
    assert!(settings.contains(&format!("\n- 0.0.0.0:{port}\n")));

    let service = of_kind(&objects, "Service");
    let entry = named(&service["spec"]["ports"], "registry");
    assert_eq!(
        (&entry["port"], &entry["targetPort"]),
        (&port.into(), &"registry".into())
    );
    let policy = of_kind(&objects, "NetworkPolicy");
    assert_eq!(policy["spec"]["ingress"][0]["ports"][0]["port"], "registry");
    let labels = &deployment["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&deployment["spec"]["selector"]["matchLabels"], labels);
    assert_eq!(&service["spec"]["selector"], labels);
    assert_eq!(&policy["spec"]["podSelector"]["matchLabels"], labels);

    for (probe, path) in [
        ("startupProbe", "/livez"),
        ("livenessProbe", "/livez"),
        ("readinessProbe", "/readyz"),
    ] {
        let asked = &container[probe]["httpGet"];
        assert_eq!(asked["path"], path);
        assert_eq!(
            (&asked["port"], &asked["scheme"]),
            (&"registry".into(), &"HTTPS".into())
        );
    }
    let within = settings
        .lines()
        .find_map(|line| line.strip_prefix("stopWithin: "));
    let within: u64 = within.unwrap().strip_suffix('s').unwrap().parse().unwrap();
    let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace > within + AFTER_STOP);

    // what the settings name lies in a volume, and below it: the volume belongs to root
    let place = |name: &str| {
        named(&container["volumeMounts"], name)["mountPath"]
            .as_str()
            .unwrap()
    };
    assert!(settings.contains(&format!("store: {}/", place("data"))));
    assert!(settings.contains(&format!("tlsCert: {}/tls.crt", place("tls"))));
    assert!(words(&container["args"]).contains(&&*format!("{}/mirror.yaml", place("settings"))));
    let claim = of_kind(&objects, "PersistentVolumeClaim");
    let volumes = &pod["volumes"];
    let claimed = &named(volumes, "data")["persistentVolumeClaim"]["claimName"];
    assert_eq!(claimed, &claim["metadata"]["name"]);
    let map = of_kind(&objects, "ConfigMap");
    assert_eq!(
        named(volumes, "settings")["configMap"]["name"],
        map["metadata"]["name"]
    );
    assert_eq!(named(volumes, "tls")["secret"]["optional"], true);

    // names within the cluster are those of the Service
    let namespace = of_kind(&objects, "Namespace")["metadata"]["name"]
        .as_str()
        .unwrap();
    let name = service["metadata"]["name"].as_str().unwrap();
    assert!(settings.contains(&format!("\n- {name}.{namespace}.svc\n")));
    for object in objects
        .iter()
        .filter(|object| object["kind"] != "Namespace")
    {
        assert_eq!(object["metadata"]["namespace"], namespace, "{object}");
    }
}

/// Both run as the chart does, with nothing they do not need.
#[test]
fn the_mirror_and_the_import_run_alike() {
    let mirror = objects("kubernetes/mirror.yaml");
    let import = objects("kubernetes/import.yaml");
    let (mirror, serves) = pod(of_kind(&mirror, "Deployment"));
    let (import, imports) = pod(of_kind(&import, "Job"));
    assert_eq!(mirror["securityContext"], import["securityContext"]);
    assert_eq!(mirror["securityContext"]["runAsNonRoot"], true);
    assert_eq!(serves["securityContext"], imports["securityContext"]);
    assert_eq!(serves["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(serves["image"], imports["image"]);
    for pod in [mirror, import] {
        // variables a cluster makes of names of services are no settings
        assert_eq!(pod["enableServiceLinks"], false);
        assert_eq!(pod["automountServiceAccountToken"], false);
        assert_eq!(pod["securityContext"]["runAsUser"], 65532);
    }
    let values = sample("charts/kubepkg-mirror/values.yaml");
    let image = serves["image"].as_str().unwrap();
    assert!(values.contains(&format!("image: {image}\n")));
    let head = sample("kubernetes/mirror.yaml");
    let head = head.split("apiVersion:").next().unwrap().to_owned();
    assert!(head.contains(&format!(" {image}\n")), "how to get {image}");

    assert!(words(&imports["args"]).contains(&"--store=/data/store"));
    let claim = "persistentVolumeClaim";
    assert_eq!(
        named(&mirror["volumes"], "data")[claim],
        named(&import["volumes"], "data")[claim]
    );
}

/// The import's call is one, but for its places.
#[test]
fn the_import_imports() {
    let import = objects("kubernetes/import.yaml");
    let (_, container) = pod(of_kind(&import, "Job"));
    let scratch = Scratch::new();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1");
    let golden = golden.to_str().unwrap();
    let call: Vec<String> = words(&container["args"])
        .iter()
        .map(|word| {
            word.replace("/bundles/", &format!("{golden}/"))
                .replace("/keys/", &format!("{golden}/"))
                .replace("/data/store", "store")
        })
        .collect();
    let call: Vec<&str> = call.iter().map(String::as_str).collect();
    scratch.run(&call).ok();
    let list = ["mirror", "list", "--store", "store"];
    assert_ne!(scratch.run(&list).ok().stdout, "");
}
