#!/usr/bin/env bash
# Everything that is shown of td3 on a GPU:
#   benchmarks/gpu.sh FOLDER [tests] [update] [throughput] [environments] [scaling] [images] [pixels] [paper]
#     [original] [course]
# TD3_MINUTES limits what trains for long; TD3_TASKS names some of the paper's tasks, TD3_AT_ONCE trains
# several side by side, TD3_EVERY says how many steps lie between evaluations, TD3_RECIPES names some of
# the course's two recipes.
# Logs and results are written into FOLDER; results that are to be kept go to benchmarks/results.
set -uo pipefail
cd "$(dirname "$0")/.."
folder=$1
name=${TD3_GPU:-h200}
shift
td3=(python3 -m td3)
read -ra tasks <<<"${TD3_TASKS:-}"

tests() { # parity of every way to execute an update, exact resume, fused kernels
  files=$(grep -lr "mark.gpu" tests --include='*.py')
  # Few threads each: on every core at once they would wait for each other.
  # shellcheck disable=SC2086
  OMP_NUM_THREADS=2 TORCHINDUCTOR_COMPILE_THREADS=1 python3 -m pytest -m gpu -p no:benchmark -n 8 -rs \
    --junitxml="$folder/tests-$name.xml" $files >"$folder/tests-$name.log" 2>&1
  tail -n 3 "$folder/tests-$name.log"
}

update() {
  for agents in 1 10 64 128 256; do
    "${td3[@]}" bench update --agents $agents --rounds 5 --seconds 0.5 --out "$folder/update-$name-$agents.json"
  done
  "${td3[@]}" bench update --agents 10 --precision float32 --rounds 5 --seconds 0.5 \
    --out "$folder/update-$name-10-float32.json"
}

throughput() {
  "${td3[@]}" bench throughput --rounds 5 --seconds 2 --out "$folder/throughput-$name-1.json"
  "${td3[@]}" bench throughput --agents 10 --rounds 5 --seconds 2 --out "$folder/throughput-$name-10.json"
}

environments() {
  "${td3[@]}" bench environments --seconds 0.3 --out "$folder/environments-$name.json"
}

scaling() {
  "${td3[@]}" bench scaling --coarse --rounds 3 --seconds 0.2 --out "$folder/scaling-$name.json"
}

images() {
  for precision in tf32 bf16; do
    "${td3[@]}" bench images --recipe pixels --precision $precision --rounds 5 --seconds 1 \
      --out "$folder/images-$name-$precision.json"
  done
}

pixels() { # cheetah-run and CarRacing from pixels, side by side, for TD3_MINUTES; again: on from there
  learn cheetah-run-pixels dm_control/cheetah-run-v0 &
  learn car-racing-pixels CarRacing-v3 --environment.resize 0 --environment.action-repeat 4 &
  wait
}

learn() { # RUN TASK OPTIONS: what is kept of the run goes to FOLDER/RUN
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

share() { # let kernels of several processes run side by side
  command -v nvidia-cuda-mps-control >/dev/null || return 0
  nvidia-cuda-mps-control -d && trap 'echo quit | nvidia-cuda-mps-control' EXIT
}

paper() { # the paper's tasks, for TD3_MINUTES; again: on from there
  at_once=${TD3_AT_ONCE:-1}
  [ "$at_once" -gt 1 ] && share
  timeout $((60 * ${TD3_MINUTES:-8})) "${td3[@]}" bench paper --at-once "$at_once" "${tasks[@]}" \
    --evaluation.every "${TD3_EVERY:-20000}" --results "$folder/paper" --json
}

original() { # with the paper's own settings, where those of the authors' code today learn later
  timeout $((60 * ${TD3_MINUTES:-20})) "${td3[@]}" bench paper Hopper-v5 Walker2d-v5 \
    --recipe benchmarks/original.toml --evaluation.every "${TD3_EVERY:-20000}" \
    --runs runs/original --results "$folder/original" --json
}

course() { # PyBullet's walkers, with the walk-throughs' settings and with those of RL Baselines3 Zoo
  walkers=(AntBulletEnv-v0 HalfCheetahBulletEnv-v0 Walker2DBulletEnv-v0)
  declare -A steps=([course]=500000 [bullet]=1000000)
  share
  for recipe in ${TD3_RECIPES:-course bullet}; do
    "${td3[@]}" bench paper "${walkers[@]}" --recipe "$recipe" --steps "${steps[$recipe]}" --seeds 3 \
      --at-once 3 --evaluation.every "${TD3_EVERY:-20000}" --runs "runs/$recipe" \
      --results "$folder/$recipe" --json
  done
}

mkdir -p "$folder"
for part in "${@:-tests}"; do
  "$part"
done
