#include "simulation/world/reducer.h"

#include <utility>

#include "core/base/digest.h"

namespace fedqueue::simulation {

void SimulatedReducer::perform(const Action& action) {
  actions_.push_back(action);
  // Actions may be done again with the same result.
  if (process_.repeats && process_.repeats()) actions_.push_back(action);
  if (!busy_) next();
}

void SimulatedReducer::next() {
  busy_ = !actions_.empty();
  if (!busy_) return;
  const bool reduction = std::holds_alternative<StartReduce>(actions_.front());
  process_.later(reduction ? process_.reduce_s : 0, "action", [this] {
    const Action action = std::move(actions_.front());
    actions_.pop_front();
    std::visit([this](const auto& value) { run(value); }, action);
    next();
  });
}

void SimulatedReducer::run(const StartReduce& action) {
  Result<ReduceFinished> finished = reduce(action);
  if (finished) {
    process_.complete(std::move(*finished));
  } else {
    process_.complete(ReduceFailed{action.plan.input_version + 1, finished.error()});
  }
}

Result<ReduceFinished> SimulatedReducer::reduce(const StartReduce& action) {
  const auto read = [&](const std::filesystem::path& path) { return process_.disk.read(path); };
  const Result<SharedBytes> current = read(process_.blobs.model_path(action.current.file));
  if (!current) return current.error();
  std::vector<SharedBytes> updates;
  std::vector<SharedBytes> bases;
  for (const ReduceInput& input : action.plan.updates) {
    Result<SharedBytes> update = read(process_.blobs.update_path(input.id));
    if (!update) return update.error();
    updates.push_back(std::move(*update));
    if (!action.plan.rebuild_models) continue;
    Result<SharedBytes> base = read(process_.blobs.model_path(action.bases.at(input.base).file));
    if (!base) return base.error();
    bases.push_back(std::move(*base));
  }
  SharedBytes state;
  if (action.plan.state) {
    Result<SharedBytes> kept = read(process_.blobs.model_path(action.plan.state->file));
    if (!kept) return kept.error();
    state = std::move(*kept);
  }
  Result<Reduced> reduced =
      process_.algebra.reduce(action.plan, **current, updates, bases, state.get());
  if (!reduced) return reduced.error();
  process_.witness.on_reduced(action, **current, updates, bases, reduced->model);
  ReduceFinished finished;
  finished.model.version = action.plan.input_version + 1;
  finished.model.file = BlobStore::model_file(finished.model.version);
  finished.model.sha256 = sha256_hex(reduced->model);
  finished.model.bytes = reduced->model.size();
  finished.step_norm = reduced->step_norm;
  // The state first: a model that is there has its state.
  if (reduced->state) {
    finished.state =
        ServerState{finished.model.version, BlobStore::state_file(finished.model.version),
                    sha256_hex(*reduced->state), reduced->state->size()};
    if (Status kept = write(finished.state->file, *reduced->state); !kept) return kept.error();
  }
  if (Status written = write(finished.model.file, reduced->model); !written) {
    return written.error();
  }
  return finished;
}

Status SimulatedReducer::write(const std::string& file, const Bytes& content) {
  const std::filesystem::path whole = process_.blobs.model_path(file);
  const std::filesystem::path fresh = process_.blobs.model_path(file + ".new");
  Result<std::unique_ptr<DiskFile>> target = process_.disk.open(fresh, Disk::Mode::replace);
  if (!target) return target.error();
  for (std::size_t done = 0; done < content.size();) {
    const Result<std::size_t> count =
        (*target)->write_at(done, std::span<const std::byte>(content).subspan(done));
    if (!count) return count.error();
    done += *count;
  }
  if (Status synced = (*target)->sync(); !synced) return synced;
  if (Status renamed = process_.disk.rename(fresh, whole); !renamed) return renamed;
  return process_.disk.sync_directory(process_.blobs.models());
}

// What is left undone costs space, never a result: the next start sweeps.
void SimulatedReducer::run(const LinkLatest& action) {
  (void)process_.blobs.link_latest(action.model.file);
}
void SimulatedReducer::run(const RemoveUpdate& action) {
  (void)process_.blobs.remove_update(action.id);
}
void SimulatedReducer::run(const RemoveModel& action) {
  (void)process_.blobs.remove_model(action.model.file);
}

void SimulatedReducer::run(const RemoveState& action) {
  (void)process_.blobs.remove_model(action.state.file);
}

}  // namespace fedqueue::simulation
