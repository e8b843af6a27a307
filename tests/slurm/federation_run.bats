#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154  # federation.bash sets them for each test
# A federation of one facility as its users see it: agent, queue, jobs and server together.

load federation

setup_file() { start_site; }
teardown_file() { stop_cluster; }
teardown() { end_run; }

@test "a run of two rounds ends by itself and its model can be exported" {
  new_run two --policy fedqueue --rounds 2 --t_sync_s 10 --theta_s 2 --q_init_s 1 --warm_up_steps 30
  write_site
  start_agent
  exit_of "$agent" 150
  [ "$exit_code" -eq 0 ]
  agent_said "the run is finished"
  status_is "status['state']" finished
  status_is "status['version']" 2
  status_is "site['updates_counted']" 2
  [ "$(status_value "all(round['steps_run'] > 0 for round in rounds)")" = True ]
  jobs_are 2
  jobs_are 0 "$live"
  for job in $(jobs_of_run); do
    has_state "$job" COMPLETED
    output_has "$job" "ranks=2"
    output_has "$job" "record=plugin"
  done
  fedserver export "$run" --output "$run/final.safetensors"
  [ -s "$run/final.safetensors" ]
  not cmp -s "$run/final.safetensors" initial.safetensors
}

@test "a job that starts after the end of the run says so and is no failure" {
  # The run of the test before is over; its server still serves it.
  run=$WORK/two
  start_server
  write_site
  job=$(fedclient submit --config "$run/site.ini")
  until_true 180 finished "$job"
  has_state "$job" COMPLETED
  output_has "$job" "the run is finished: all 2 rounds are published"
  not output_has "$job" registered
}

@test "the queue wait at the server is the one the scheduler has on record" {
  new_run waits --local_steps 20 --rounds 2
  write_site "extra = --hold"
  start_agent
  # Held by us: that time is no queue wait. Then free nodes: none.
  until_true 90 one_job
  until_true 10 clock_past $(($(slurm_time "$job" SubmitTime) + 2))
  scontrol release "$job"
  until_true 180 status_is "status['version']" 1
  wait_equals_record 0 "$job"
  until_true 90 jobs_are 2
  second=$(jobs_of_run | grep -vx "$job")
  # Behind another's job from its release on.
  keep_busy
  scontrol release "$second"
  until_true 10 clock_past $(($(date +%s) + 2))
  scancel "$blocker"
  exit_of "$agent" 150
  [ "$exit_code" -eq 0 ]
  wait_equals_record 1 "$second"
  (($(scheduler_wait "$second") >= 2))
}

clock_past() { (($(date +%s) > $1)); }
scheduler_wait() { echo $(($(slurm_time "$1" StartTime) - $(slurm_time "$1" EligibleTime))); }
# wait_equals_record ROUND JOB: in the server's status and in metrics/rounds.csv.
wait_equals_record() {
  local expected csv
  expected=$(scheduler_wait "$2")
  [ "$(status_value "int(rounds[$1]['queue_wait_s'])")" = "$expected" ]
  csv=$(awk -F, -v round="$(($1 + 1))" '$1 == round && $2 == "site-t" {print $4}' \
    "$run/metrics/rounds.csv")
  [ "$csv" = "$expected" ]
}

@test "a job that can never be accepted ends the agent, which may try again when it is corrected" {
  new_run refused --local_steps 20
  write_site "partition = nowhere"
  start_agent
  exit_of "$agent" 30
  [ "$exit_code" -eq 32 ]
  agent_said "code=scheduler-refused"
  agent_said "invalid partition"
  jobs_are 0
  [ "$(fedclient status --config "$run/site.ini" --format json 2>/dev/null |
    python3 -c "import json, sys; agent = json.load(sys.stdin)['agent']; print(agent['jobs'], repr(agent['intent']))")" = "[] ''" ]
  write_site
  start_agent
  exit_of "$agent" 150
  [ "$exit_code" -eq 0 ]
  jobs_are 1
  status_is "status['state']" finished
}

@test "no node is drained after all this" {
  no_node_is_drained
}
