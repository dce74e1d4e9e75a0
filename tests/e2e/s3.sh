# shellcheck shell=bash
# SeaweedFS as a server of buckets, which checks keys, with the bucket `mirror`.

s3=127.0.0.1:8333
export AWS_ACCESS_KEY_ID=kptest AWS_SECRET_ACCESS_KEY=kptestsecret AWS_REGION=us-east-1
export AWS_ENDPOINT_URL=http://$s3 AWS_ALLOW_HTTP=true

signed() { curl -fsS --aws-sigv4 aws:amz:us-east-1:s3 --user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY" "$@"; }

s3_start() { # [VOLUMES]: of 64 MB
    jq -n '{identities: [{name: "mirror", actions: ["Admin", "Read", "Write", "List"],
        credentials: [{accessKey: env.AWS_ACCESS_KEY_ID, secretKey: env.AWS_SECRET_ACCESS_KEY}]}]}' >s3.json
    mkdir -p s3
    # other parts of these tests listen at its usual ports
    daemon s3 seaweedfs -logtostderr=true server -dir=s3 -ip=127.0.0.1 -ip.bind=127.0.0.1 -master.port=19333 \
        -volume.port=18080 -filer.port=18888 -s3.port=8333 -master.volumeSizeLimitMB=64 \
        -volume.max="${1:-30}" -filer -s3 -s3.config=s3.json -s3.port.iceberg=0
    await s3 signed -o /dev/null "http://$s3/"
    await s3 signed -X PUT -o /dev/null "http://$s3/mirror"
    # it answers before it can keep anything
    await s3 signed -X PUT -H x-amz-content-sha256:UNSIGNED-PAYLOAD --data-binary ready -o /dev/null "http://$s3/mirror/ready"
}
