# shellcheck shell=bash
# What scripts/test, scripts/demo and scripts/bench share: words to the user, packages, the build.
# Sourced; it runs nothing by itself.

# Slurm's daemons live in sbin, which is not in every user's PATH.
PATH=$PATH:/usr/sbin:/sbin
REPOSITORY=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Another build folder may be named, to keep several builds of one checkout apart.
BUILD_ROOT=${FEDQUEUE_BUILD_ROOT:-$REPOSITORY/build}
LOGS=$BUILD_ROOT/log

say() { printf '%s\n' "$*" >&2; }

die() { # CODE MESSAGE...
  local code=$1
  shift
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit "$code"
}

# --- long steps -------------------------------------------------------------------------------------

# step NAME SENTENCE COMMAND...: says the sentence, runs the command with its output in
# build/log/NAME.log, and lets the newest line through now and then, so that a long step is seen to
# move. A failure shows the end of the log; its status is returned.
step() {
  local name=$1 sentence=$2 begin=$SECONDS next=$((SECONDS + 20)) line status=0
  shift 2
  mkdir -p "$LOGS"
  say "-- $sentence"
  {
    "$@" </dev/null 2>&1 | while IFS= read -r line; do
      printf '%s\n' "$line"
      if ((SECONDS >= next)); then
        say "   $((SECONDS - begin)) s: ${line:0:110}"
        next=$((SECONDS + 20))
      fi
    done
  } >"$LOGS/$name.log" || status=$?
  if ((status != 0)); then
    say "-- failed after $((SECONDS - begin)) s; the end of $LOGS/$name.log:"
    tail -n 30 "$LOGS/$name.log" >&2
  fi
  return "$status"
}

# --- packages ---------------------------------------------------------------------------------------

packages_of() { # GROUP...
  local group
  for group in "$@"; do
    case $group in
      # The tests are part of the one build folder, so their library belongs to the build.
      build) echo g++ cmake ninja-build nlohmann-json3-dev libboost-dev \
        libboost-program-options-dev libeigen3-dev libssl-dev libxxhash-dev libgtest-dev libgmock-dev ;;
      server) echo libsqlite3-dev ;;
      client) echo libcurl4-openssl-dev ;;
      # libpmix-dev has the unversioned library that `srun --mpi=pmix` opens.
      trainer) echo libtorch-dev libopenblas0-pthread libopenmpi-dev openmpi-bin libpmix-dev ;;
      slurm) echo slurmctld slurmd slurm-client munge libslurm-dev ;;
      data) echo dataset-fashion-mnist ;;
      test) echo bats shellcheck curl openssl python3 sqlite3 procps ;;
      *) die 2 "there is no package group '$group'." ;;
    esac
  done
}

# missing_packages GROUP...: those that are not installed, without asking the network.
missing_packages() {
  local wanted installed package
  read -r -a wanted <<<"$(packages_of "$@" | tr '\n' ' ')"
  # dpkg-query fails when it does not know one of the names, and still lists the others.
  installed=$(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
  for package in "${wanted[@]}"; do
    grep -qxF "$package installed" <<<"$installed" || echo "$package"
  done
}

is_debian_like() {
  [[ -r /etc/os-release ]] && command -v apt-get >/dev/null && command -v dpkg-query >/dev/null &&
    (
      # shellcheck source=/dev/null
      source /etc/os-release
      [[ " ${ID:-} ${ID_LIKE:-} " =~ \ (debian|ubuntu)\  ]]
    )
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif sudo -n true 2>/dev/null; then
    sudo -n "$@"
  else
    sudo "$@"
  fi
}

apt_install() { # PACKAGE...
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300
    -o Acquire::Retries=3)
  as_root "${apt[@]}" update && as_root "${apt[@]}" install --no-install-recommends "$@"
}

# install_packages GROUP...: what is missing and nothing else, so a later run needs no network.
install_packages() {
  local missing
  if ! is_debian_like; then
    say "-- this is not Debian or Ubuntu; make sure that the equivalents of these packages are here:"
    say "   $(packages_of "$@" | tr '\n' ' ')"
    return 0
  fi
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} > 0)) || return 0
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die 1 "these packages are missing and you are neither root nor" \
      "able to use sudo; ask for: apt-get install ${missing[*]}"
    # A password is asked for here, in the open, and not inside a step whose output is in a file.
    sudo -n true 2>/dev/null || { [[ -t 0 ]] && sudo -v; } ||
      die 1 "sudo wants a password and there is no terminal; install first: apt-get install ${missing[*]}"
  fi
  step packages "installing packages: ${missing[*]}" apt_install "${missing[@]}" ||
    die 1 "could not install packages; try: apt-get update && apt-get install ${missing[*]}"
}

# --- the build --------------------------------------------------------------------------------------

memory_mib() { # what may still be used here, a container's limit included
  local mib limit used
  mib=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1024))
  if [[ -r /sys/fs/cgroup/memory.max && -r /sys/fs/cgroup/memory.current ]]; then
    limit=$(</sys/fs/cgroup/memory.max) used=$(</sys/fs/cgroup/memory.current)
    if [[ $limit =~ ^[0-9]+$ ]] && (((limit - used) / 1048576 < mib)); then
      mib=$(((limit - used) / 1048576))
    fi
  fi
  echo "$mib"
}

# One compiler for each core, but only as many as there is memory for: a file that includes LibTorch
# takes about 1.5 GiB.
build_jobs() {
  local cores by_memory
  cores=$(nproc)
  by_memory=$(($(memory_mib) / 1500))
  ((by_memory >= 1)) || by_memory=1
  echo $((by_memory < cores ? by_memory : cores))
}

# configure PRESET [CMAKE-OPTION...]
configure() {
  local preset=$1
  # Where ccache is installed, let a second checkout use what the first one compiled.
  export CCACHE_BASEDIR=$REPOSITORY CCACHE_NOHASHDIR=true
  shift
  step "configure-$preset" "configuring the $preset build" \
    cmake -S "$REPOSITORY" --preset "$preset" -B "$BUILD_ROOT/$preset" "$@"
}

# compile PRESET [TARGET...]: without targets everything. When nothing has changed this takes a second.
compile() {
  local preset=$1 targets=()
  shift
  (($# == 0)) || targets=(--target "$@")
  step "build-$preset" "building in $BUILD_ROOT/$preset (the first time this takes some minutes)" \
    cmake --build "$BUILD_ROOT/$preset" -j "$(build_jobs)" "${targets[@]}"
}
