#!/usr/bin/env bash
# All published GPU measurements and trainings:
#   benchmarks/gpu.sh FOLDER [tests] [update] [throughput] [environments] [scaling] [images] [pixels] [paper]
#     [campaign] [course] [peers] [population]
# Variables: TD3_MINUTES (time limit of trainings), TD3_TASKS (some of the paper's tasks), TD3_AT_ONCE (tasks
# trained at the same time), TD3_EVERY (steps between evaluations), TD3_RECIPES (some of the course's recipes),
# TD3_SEEDS (seeds of the course's tasks), TD3_PLAN and TD3_PARTS (plan of campaign, some of its parts), TD3_SOURCE (clone of
# github.com/sfujim/TD3), TD3_WHEELS (folder of wheels, for peers on a machine without a network).
# Logs and results go to FOLDER. Copy results that should be published to benchmarks/results.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=$1
name=${TD3_GPU:-h200}
shift
td3=(python3 -m td3)
lab=(python3 -m benchmarks)
read -ra tasks <<<"${TD3_TASKS:-}"

tests() { # parity of all execution paths, exact resume, fused kernels
  files=$(grep -lr "mark.gpu" tests --include='*.py')
  # Few threads per process; otherwise the processes compete for cores.
  # shellcheck disable=SC2086
  OMP_NUM_THREADS=2 TORCHINDUCTOR_COMPILE_THREADS=1 python3 -m pytest -m gpu -p no:benchmark -n 8 -rs \
    --junitxml="$folder/tests-$name.xml" $files >"$folder/tests-$name.log" 2>&1
  tail -n 3 "$folder/tests-$name.log"
}

update() {
  for agents in 1 10 32 64 128 256; do
    "${lab[@]}" update --agents $agents --rounds 5 --seconds 0.5 --out "$folder/update-$name-$agents.json"
  done
  "${lab[@]}" update --agents 10 --precision float32 --rounds 5 --seconds 0.5 \
    --out "$folder/update-$name-10-float32.json"
}

throughput() {
  for agents in 1 10 32 64 128 256; do
    "${td3[@]}" bench throughput --agents $agents --rounds 5 --seconds 2 \
      --out "$folder/throughput-$name-$agents.json"
  done
}

host() { # the host's work of a step, without networks
  for agents in 1 10 64 128; do
    "${td3[@]}" bench throughput --agents $agents --host-only --rounds 5 --seconds 2 \
      --out "$folder/host-$name-$agents.json"
  done
}

workers() { # which number of worker processes is best for many agents
  mkdir -p "$folder/workers"
  for agents in 64 128; do
    for workers in 4 6 8 10 12 14; do
      "${td3[@]}" bench throughput --agents $agents --workers $workers --rounds 3 --seconds 1 \
        --out "$folder/workers/throughput-$name-$agents-$workers.json"
    done
  done
}

population() { # everything that the tables of docs/performance.md say about many agents: ten minutes
  update
  throughput
  host
  workers
}

environments() {
  "${lab[@]}" environments --seconds 0.3 --out "$folder/environments-$name.json"
}

scaling() {
  "${lab[@]}" scaling --coarse --rounds 3 --seconds 0.2 --out "$folder/scaling-$name.json"
}

images() {
  for precision in tf32 bf16; do
    "${lab[@]}" images --recipe pixels --precision $precision --rounds 5 --seconds 1 \
      --out "$folder/images-$name-$precision.json"
  done
}

pixels() { # cheetah-run and CarRacing from pixels, at the same time, for TD3_MINUTES; a second call continues
  learn cheetah-run-pixels dm_control/cheetah-run-v0 &
  learn car-racing-pixels CarRacing-v3 --environment.resize 0 --environment.action-repeat 4 &
  wait
}

learn() { # RUN TASK OPTIONS: copies the small files of the run to FOLDER/RUN
  run=runs/$1 kept=$folder/$1
  if [ -d "$run" ]; then
    command=(resume "$run")
  else
    command=(train "$2" --recipe pixels --precision bf16 --environment.count 8 --run "$run" "${@:3}")
  fi
  timeout $((60 * ${TD3_MINUTES:-8})) "${td3[@]}" "${command[@]}" --quiet
  mkdir -p "$kept"
  cp "$run"/{config.toml,metrics.jsonl,events.jsonl} "$run"/policy/agent-0.safetensors "$kept"
}

share() { # let kernels of several processes run at the same time
  command -v nvidia-cuda-mps-control >/dev/null || return 0
  nvidia-cuda-mps-control -d && trap 'echo quit | nvidia-cuda-mps-control' EXIT
}

paper() { # the paper's tasks, for TD3_MINUTES; a second call continues
  at_once=${TD3_AT_ONCE:-1}
  [ "$at_once" -gt 1 ] && share
  timeout $((60 * ${TD3_MINUTES:-8})) "${lab[@]}" paper --at-once "$at_once" "${tasks[@]}" \
    --evaluation.every "${TD3_EVERY:-20000}" --results "$folder/paper" --json
}

peers() { # other libraries and the authors' code (TD3_SOURCE), in the same rounds as td3
  python3 -m venv --system-site-packages "$folder/peers-venv"
  peers_python=$folder/peers-venv/bin/python
  offline=()
  [ -n "${TD3_WHEELS:-}" ] && offline=(--no-index --find-links "$TD3_WHEELS")
  grep -v '^#' benchmarks/peers.txt | while read -r library; do
    "$peers_python" -m pip install -q "${offline[@]}" "$library" || echo "$library: not installed"
  done
  "$peers_python" -m benchmarks peers --rounds 5 --seconds 4 --source "${TD3_SOURCE:-carry/authors}" \
    --out "$folder/peers-$name.json"
}

campaign() { # the trainings of TD3_PLAN, e.g. claims or flash-gate; a second call continues
  plan=${TD3_PLAN:-claims}
  # shellcheck disable=SC2086
  "${lab[@]}" campaign "$plan" start --parts ${TD3_PARTS:-} --source "${TD3_SOURCE:-carry/authors}"
  # shellcheck disable=SC2086
  "${lab[@]}" campaign "$plan" collect --parts ${TD3_PARTS:-} --seconds $((60 * ${TD3_MINUTES:-9})) \
    --out "$folder/$plan"
}

course() { # PyBullet walkers, settings of the walk-throughs and of RL Baselines3 Zoo; a second call continues
  walkers=(AntBulletEnv-v0 HalfCheetahBulletEnv-v0 Walker2DBulletEnv-v0)
  declare -A steps=([course]=500000 [bullet]=1000000)
  share
  for recipe in ${TD3_RECIPES:-course bullet}; do
    timeout $((60 * ${TD3_MINUTES:-120})) "${lab[@]}" paper "${walkers[@]}" --recipe "$recipe" \
      --steps "${steps[$recipe]}" --seeds "${TD3_SEEDS:-10}" --at-once 3 \
      --evaluation.every "${TD3_EVERY:-20000}" --runs "runs/$recipe" --results "$folder/$recipe" --json
  done
}

mkdir -p "$folder"
for part in "${@:-tests}"; do
  "$part"
done
