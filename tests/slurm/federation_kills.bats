#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154  # federation.bash sets them for each test
# Whatever is killed, requeued or out of time: work that was done counts once, and no job is
# submitted twice.

load federation

setup_file() {
  start_site
  # Nearer to a real cluster's than the sandbox's: time enough to send what there is.
  sed -i 's/^KillWait=.*/KillWait=10/' "$SLURM_CONF"
  scontrol reconfigure
}
teardown_file() { stop_cluster; }
teardown() { end_run; }

@test "an agent killed before and after its submission finds the one job again" {
  mkdir -p bin
  cat >bin/sbatch <<END
#!/bin/bash
# The real sbatch, which once ends the agent that calls it: before the submission, or after it.
if [[ " \$* " == *" --parsable "* && -e $WORK/before ]]; then
  rm "$WORK/before" && kill -KILL \$PPID
elif [[ " \$* " == *" --parsable "* && -e $WORK/after ]]; then
  rm "$WORK/after" && "$(command -v sbatch)" "\$@" && kill -KILL \$PPID
fi
exec "$(command -v sbatch)" "\$@"
END
  chmod +x bin/sbatch
  PATH=$WORK/bin:$PATH
  new_run submission --local_steps 20 --rounds 2
  write_site
  touch before
  start_agent
  exit_of "$agent" 30
  [ "$exit_code" -eq 137 ]
  token=$(intended)
  [ -n "$token" ]
  jobs_are 0
  touch after
  start_agent
  exit_of "$agent" 30
  [ "$exit_code" -eq 137 ]
  [ "$(intended)" = "$token" ]
  until_true 10 jobs_are 1
  start_agent
  exit_of "$agent" 150
  [ "$exit_code" -eq 0 ]
  agent_said "job found again"
  [ -d "$run/agent/jobs/$token" ]
  status_is "site['updates_counted']" 2
  jobs_are 2
}
intended() { python3 -c "import json; print(json.load(open('$run/agent/intent.json')).get('token', ''))"; }

@test "an agent killed with a queued and with a running job adopts it" {
  new_run adopted
  write_site
  keep_busy
  start_agent
  until_true 90 agent_said submitted
  one_job
  kill_agent
  start_agent
  until_true 90 agent_said "a job of this facility is queued"
  has_state "$job" PENDING
  kill_agent
  scancel "$blocker" # the job starts while nobody looks
  until_true 180 trains "$job.0"
  start_agent
  until_true 90 agent_said "is training"
  jobs_are 1
  let_finish "$job"
  exit_of "$agent" 150
  [ "$exit_code" -eq 0 ]
  has_state "$job" COMPLETED
  status_is "site['updates_counted']" 1
  jobs_are 1
}

@test "a requeued job sends what it has, and its second start goes on" {
  new_run requeued --rounds 2
  write_site
  start_agent
  until_true 90 one_job
  until_true 180 trains "$job.0"
  scontrol requeue "$job"
  until_true 180 status_is "status['version']" 1
  until_true 180 trains "$job.1"
  let_finish "$job"
  exit_of "$agent" 150
  [ "$exit_code" -eq 0 ]
  status_is "site['updates_counted']" 2
  [ "$(events attempt-fenced "fact['attempt']")" = "$job.0" ]
  jobs_are 1
}

@test "processes that outlive their node's failure are fenced, and one update counts" {
  new_run fenced
  # A step would be told of the failure and send what it has; a batch script alone is not.
  # shellcheck disable=SC2016  # the job expands it
  printf '#!/bin/bash\nexec "$FEDQUEUE_BIN/fedclient" train\n' >alone.sbatch
  script=$WORK/alone.sbatch write_site
  start_agent
  until_true 90 one_job
  until_true 180 trains "$job.0"
  node=$(scontrol -o show job "$job" | grep -oP '(?<= BatchHost=)\S+')
  kill -KILL "$(<"$WORK/s/t/pid/slurmd-$node.pid")"
  scontrol update nodename="$node" state=down reason=failed
  until_true 180 trains "$job.1"
  until_true 90 output_has "$job" "job=$job.0 .*was replaced by another one"
  let_finish "$job"
  exit_of "$agent" 150
  start_node "$node"
  [ "$exit_code" -eq 0 ]
  status_is "site['updates_counted']" 1
  status_is "rounds[0]['steps_run'] > 0" True
  [ "$(events update-decided "fact['attempt']")" = "$job.1" ]
  jobs_are 1
}

start_node() {
  # shellcheck source=/dev/null
  (source "$FEDQUEUE_SANDBOX/lib.sh" &&
    detached "$SLURM_CONF" "$WORK/s/t/log/start.log" slurmd -N "$1")
  scontrol update nodename="$1" state=resume
}

@test "a job whose time is up counts with the steps it had time for" {
  new_run limited
  # It stops twenty seconds after its start, forty before its limit.
  reserve=40 write_site "time = 60" "signal = B:USR1@15"
  start_agent
  until_true 90 one_job
  exit_of "$agent" 150
  [ "$exit_code" -eq 0 ]
  has_state "$job" COMPLETED
  status_is "site['updates_counted']" 1
  status_is "0 < rounds[0]['steps_run'] < rounds[0]['steps_assigned']" True
  jobs_are 1
}

@test "what a killed job had kept is sent by the agent and counts" {
  new_run killed
  snapshot=0.2 write_site
  start_agent
  until_true 90 one_job
  until_true 180 has_snapshot
  scancel --signal=KILL "$job.0"
  exit_of "$agent" 150
  [ "$exit_code" -eq 0 ]
  agent_said "sent what a job left"
  status_is "site['updates_counted']" 1
  status_is "0 < rounds[0]['steps_run'] < rounds[0]['steps_assigned']" True
  not has_snapshot
  jobs_are 1
}
has_snapshot() { compgen -G "$run/agent/jobs/*/snapshots/*.json" >/dev/null; }

@test "no node is drained after all this" {
  no_node_is_drained
}
