#!/usr/bin/env bats
# The sbatch scripts that users copy, run as they are with a trainer that only tells what it sees.

load plugin_helpers

TEMPLATES=$BATS_TEST_DIRNAME/../../batch_scripts

setup_file() {
  start_cluster
  mkdir -p "$WORK/bin"
  cat >"$WORK/bin/fedclient" <<'END'
#!/bin/bash
# Tells what it sees; ends with the code, and waits for a signal, as its arguments say.
rank=${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-none}}
printf 'rank=%s threads=%s run=%s arguments=%s\n' "$rank" "$OMP_NUM_THREADS" "${FED_RUN:-}" "$*"
[[ " $* " != *" wait "* ]] || {
  trap 'echo "rank $rank was signalled"; exit 0' USR1
  for ((i = 0; i < 300; i++)); do sleep 0.1; done
  exit 1
}
exit "${!#}"
END
  chmod +x "$WORK/bin/fedclient"
  export FEDQUEUE_BIN=$WORK/bin
}
teardown_file() { stop_cluster; }

submit() { # NAME SBATCH-ARGUMENTS...: sets job, waits for the end
  local name=$1
  shift
  job=$(sbatch --parsable --output="$WORK/$name" "$@")
  until_true 60 finished "$job"
  cat "$WORK/$name"
}
exit_code() { scontrol -o show job "$job" | grep -oP '(?<=ExitCode=)\d+'; }

@test "the ranks see their rank, their threads and the run" {
  submit cpu --fed-run=demo "$TEMPLATES/fedqueue-cpu.sbatch" --flag 0
  [ "$(exit_code)" = 0 ]
  grep -q "rank=0 threads=1 run=demo arguments=train --flag 0" cpu
  grep -q "rank=1 threads=1 run=demo arguments=train --flag 0" cpu
}

@test "mpirun starts them where Slurm speaks no PMIx" {
  command -v mpirun >/dev/null || skip "mpirun is not installed"
  FEDQUEUE_LAUNCHER=mpirun submit mpirun --fed-run=demo "$TEMPLATES/fedqueue-cpu.sbatch" 0
  [ "$(exit_code)" = 0 ]
  grep -q "rank=0 threads=1 run=demo" mpirun
  grep -q "rank=1 threads=1 run=demo" mpirun
}

@test "the job ends with the trainer's exit code" {
  submit code "$TEMPLATES/fedqueue-cpu.sbatch" 75
  [ "$(exit_code)" = 75 ]
  if command -v mpirun >/dev/null; then
    FEDQUEUE_LAUNCHER=mpirun submit code2 "$TEMPLATES/fedqueue-cpu.sbatch" 75
    [ "$(exit_code)" = 75 ]
  fi
}

@test "a signal reaches every rank and their exit code still counts" {
  for launcher in srun mpirun; do
    command -v "$launcher" >/dev/null || continue
    job=$(FEDQUEUE_LAUNCHER=$launcher sbatch --parsable --output="$WORK/signal-$launcher" \
      "$TEMPLATES/fedqueue-cpu.sbatch" wait)
    until_true 30 both_ranks "signal-$launcher"
    scancel --batch --signal=USR1 "$job"
    until_true 30 finished "$job"
    cat "signal-$launcher"
    [ "$(exit_code)" = 0 ]
    grep -q "rank 0 was signalled" "signal-$launcher"
    grep -q "rank 1 was signalled" "signal-$launcher"
  done
}
both_ranks() { [[ $(grep -c ^rank= "$1" 2>/dev/null) == 2 ]]; }

@test "a missing trainer and an unknown launcher are said and end with 2" {
  FEDQUEUE_BIN=$WORK/nowhere submit missing "$TEMPLATES/fedqueue-cpu.sbatch" 0
  [ "$(exit_code)" = 2 ]
  grep -q "set FEDQUEUE_BIN" missing
  FEDQUEUE_LAUNCHER=ssh submit unknown "$TEMPLATES/fedqueue-cpu.sbatch" 0
  [ "$(exit_code)" = 2 ]
  grep -q "must be srun or mpirun" unknown
}

@test "the GPU script runs one rank per GPU and complains where there is none" {
  # The sandbox has no GPUs, so the request for them is left out; everything else is as it stands.
  sed -e '/^#SBATCH --gpus/d' -e 's/cpus-per-task=4/cpus-per-task=1/' \
    "$TEMPLATES/fedqueue-gpu.sbatch" >gpu.sbatch
  submit gpu gpu.sbatch 0
  [ "$(exit_code)" = 0 ]
  [ "$(grep -c ^rank= gpu)" = 2 ]
  command -v nvidia-smi >/dev/null || grep -q "no GPU is visible" gpu
}
