#include "fedserver/http/model_index.h"

#include <algorithm>

namespace fedqueue::http {

void ModelIndex::on_fact(const JournalRow& /*row*/, const Fact& fact, const Engine& /*engine*/) {
  take(fact);
}

void ModelIndex::on_replayed(const JournalRow& /*row*/, const Fact& fact) { take(fact); }

void ModelIndex::take(const Fact& fact) {
  const std::lock_guard lock(mutex_);
  if (const auto* opened = std::get_if<RunOpened>(&fact)) {
    models_[opened->initial.version] = opened->initial;
  } else if (const auto* published = std::get_if<Published>(&fact)) {
    models_[published->model.version] = published->model;
  } else if (const auto* pruned = std::get_if<ModelsPruned>(&fact)) {
    oldest_ = std::max(oldest_, pruned->below);
    std::erase_if(models_, [&](const auto& entry) {
      return entry.first != 0 && entry.first < pruned->below;  // the initial model stays
    });
  } else if (const auto* decided = std::get_if<UpdateDecided>(&fact)) {
    const UpdateId& id = decided->answer.id;
    if (decided_.insert_or_assign(id, decided->bytes).second) decided_order_.push_back(id);
    if (decided_order_.size() > decided_max) {
      decided_.erase(decided_order_.front());
      decided_order_.pop_front();
    }
  }
}

std::optional<ModelRecord> ModelIndex::find(Version version) const {
  const std::lock_guard lock(mutex_);
  const auto found = models_.find(version);
  return found == models_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<ModelRecord> ModelIndex::latest() const {
  const std::lock_guard lock(mutex_);
  return models_.empty() ? std::nullopt : std::optional(models_.rbegin()->second);
}

Version ModelIndex::oldest() const {
  const std::lock_guard lock(mutex_);
  return oldest_;
}

std::optional<std::uint64_t> ModelIndex::decided_bytes(const UpdateId& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = decided_.find(id);
  return found == decided_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace fedqueue::http
