#!/usr/bin/env bats
# shellcheck disable=SC2030,SC2031,SC2154  # federation.bash sets them for each test
# Jobs that a person submits, without an agent, and what is said when something is wrong with them.

load federation

setup_file() {
  start_site
  # With --export=NONE nothing of this shell reaches the job: its script must know the program.
  sed "s|^set -euo pipefail|&\nFEDQUEUE_BIN=$FEDQUEUE_BIN|" "$TEMPLATE" >by-hand.sbatch
}
teardown_file() { stop_cluster; }
teardown() { end_run; }

@test "a job submitted by hand with --export=NONE trains its segment, and it counts" {
  new_run by-hand --local_steps 20
  write_site
  job=$(sbatch --parsable --export=NONE --output="$run/job.out" --fed-run=by-hand \
    --fed-server="$url" --fed-kit="$run/facilities/site-t" --fed-config="$run/site.ini" by-hand.sbatch)
  until_true 180 finished "$job"
  has_state "$job" COMPLETED
  grep -q "ranks=2 record=plugin" "$run/job.out"
  until_true 90 status_is "status['state']" finished
  status_is "site['updates_counted']" 1
  status_is "rounds[0]['steps_run']" 20
}

@test "a bad value smuggled past sbatch ends the job with 2 and its words, and the trainer alone too" {
  SLURM_SPANK_FED_RUN='Bad;Name' sbatch --parsable --output="$WORK/smuggled" "$TEMPLATE" >id
  until_true 180 finished "$(<id)"
  [ "$(exit_code_of "$(<id)")" = 2:0 ]
  grep -q "'Bad;Name' is not a name" smuggled
  local status=0
  SLURM_SPANK_FED_RUN='Bad;Name' srun --ntasks=1 fedclient train >smuggled 2>&1 || status=$?
  [ "$status" -eq 2 ]
  grep -q "'Bad;Name' is not a name" smuggled
  until_true 20 all_nodes_idle
}

@test "ranks that do not find each other end with 40 and the launcher to use" {
  new_run alone
  write_site
  local status=0
  srun --mpi=none --ntasks=2 fedclient train --config "$run/site.ini" >alone.out 2>&1 || status=$?
  cat alone.out
  [ "$status" -eq 40 ]
  grep -q "rank 0 of 1, but Slurm started 2 tasks" alone.out
  grep -q "Use srun --mpi=pmix" alone.out
  status_is "site.get('attempt')" None
}

@test "no node is drained after all this" {
  no_node_is_drained
}
