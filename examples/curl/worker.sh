#!/bin/sh
# The worker of examples/hello without an SDK: the five calls of the protocol, with curl.
#
#   sh examples/curl/worker.sh [how many leases, default for ever]
#
# STEPD_URL and STEPD_KEY say where the daemon is and who calls. Besides curl it needs jq, to read JSON.
# A real worker has a few more duties: a heartbeat every heartbeat_seconds while its body runs, a stop when it is told
# to, and an outcome that is sent again until it is answered.
set -eu

url=${STEPD_URL:-http://127.0.0.1:7117}
left=${1:--1}
worker=curl-$$

# Sends a JSON body and prints the answer's; an answer that is no success ends this worker with what it said.
call() { # METHOD PATH BODY
  curl --silent --show-error --fail-with-body --max-time 45 --request "$1" "$url$2" \
    --header 'Content-Type: application/json' ${STEPD_KEY:+--header "Authorization: Bearer $STEPD_KEY"} --data "$3" \
    || { echo " ($1 $url$2)" >&2; return 1; }
}

# Prints what jq finds in a JSON text.
from() { # TEXT FILTER
  printf '%s' "$1" | jq --raw-output --compact-output "$2"
}

# 1. Register: the same workflow as examples/hello. The version comes from the definition, so this may be said again.
registered=$(call PUT /v1/workflows/hello '{
  "steps": [{"id": "greet", "effect": "read_only"}],
  "output": {"$cel": "steps.greet.output"}
}')
from "$registered" '"registered \(.name) \(.version)"'

claims=0
while [ "$left" -ne 0 ]; do
  # 2. Claim: waits up to 30 seconds for work. Each claim has an id of its own; were its answer lost, it could be asked
  #    for again by that id.
  claims=$((claims + 1))
  answer=$(call POST /v1/leases/claim '{
    "worker": "'"$worker"'", "claim_id": "'"$worker-$(date +%s)-$claims"'",
    "wait_seconds": 30, "serves": [{"workflow": "hello"}]
  }')
  lease=$(from "$answer" '.leases[0] // empty')
  [ -n "$lease" ] || continue
  id=$(from "$lease" .id)
  fence=$(from "$lease" .fence)

  # 3. Heartbeat: the body starts now, and this worker is alive. A long body sends one every heartbeat_seconds.
  call POST "/v1/leases/$id/heartbeat" '{"fence": '"$fence"', "started": true}' >/dev/null

  output=$(from "$lease" '.input.name // empty | {greeting: "Hello, \(.)!"}')
  if [ -n "$output" ]; then
    # 4. Complete: the body is done, and this is its output.
    answer=$(call POST "/v1/leases/$id/complete" '{"fence": '"$fence"', "output": '"$output"'}')
    from "$answer" '"completed, the execution is \(.execution.status)"'
  else
    # 5. Fail: it is not, and trying again would not help.
    answer=$(call POST "/v1/leases/$id/fail" '{
      "fence": '"$fence"', "class": "fatal", "message": "the input has no name"
    }')
    from "$answer" '"failed: \(.disposition)"'
  fi
  left=$((left - 1))
done
