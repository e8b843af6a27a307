// One request at a time per update. A newer request for the same update takes over: the older one,
// if it is still receiving, is cut, since a client that asks again has given its old connection up
// (the server may not have noticed yet). An older one that has all its bytes is waited for.
//
// Thread-safe.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/base/ids.h"
#include "fedserver/http/desk.h"

namespace fedqueue::http {

class UploadSlots {
  struct Entry;

 public:
  // The right to send one update, given back at its end.
  class Slot {
   public:
    Slot(UploadSlots& slots, UpdateId id) : slots_(&slots), id_(std::move(id)) {}
    Slot(Slot&& other) noexcept
        : slots_(std::exchange(other.slots_, nullptr)), id_(std::move(other.id_)) {}
    Slot& operator=(Slot&&) = delete;
    ~Slot() {
      if (slots_ != nullptr) slots_->give_back(id_);
    }
    // All bytes are here: not to be cut any more.
    void settle() { slots_->settle(id_); }

   private:
    UploadSlots* slots_;
    UpdateId id_;
  };

  explicit UploadSlots(Desk& desk) : desk_(desk) {}

  // `cut` ends the asking request's own connection. `waited` tells whether another request was in
  // the way, so that what was asked before may have changed. Nothing: the server is ending.
  Task<std::optional<Slot>> take(UpdateId id, std::function<void()> cut, bool& waited) {
    for (;;) {
      if (enter(id, cut)) co_return std::optional<Slot>(std::in_place, *this, id);
      waited = true;
      auto start = [this, id](std::function<void(bool)> reply) { wait(id, std::move(reply)); };
      const std::optional<bool> left = co_await desk_.ask<bool>(std::move(start));
      if (!left) co_return std::nullopt;
    }
  }

  [[nodiscard]] std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

 private:
  struct Entry {
    std::function<void()> cut;
    bool receiving = true;
    std::vector<std::function<void(bool)>> waiting;
  };

  bool enter(const UpdateId& id, const std::function<void()>& cut) {
    const std::lock_guard lock(mutex_);
    const auto [entry, fresh] = entries_.try_emplace(id);
    if (fresh) {
      entry->second.cut = cut;
    } else if (entry->second.receiving) {
      entry->second.cut();
    }
    return fresh;
  }
  void wait(const UpdateId& id, std::function<void(bool)> reply) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto entry = entries_.find(id); entry != entries_.end()) {
        entry->second.waiting.push_back(std::move(reply));
        return;
      }
    }
    reply(true);
  }
  void settle(const UpdateId& id) {
    const std::lock_guard lock(mutex_);
    if (const auto entry = entries_.find(id); entry != entries_.end()) {
      entry->second.receiving = false;
    }
  }
  void give_back(const UpdateId& id) {
    std::vector<std::function<void(bool)>> waiting;
    {
      const std::lock_guard lock(mutex_);
      const auto entry = entries_.find(id);
      if (entry == entries_.end()) return;
      waiting = std::move(entry->second.waiting);
      entries_.erase(entry);
    }
    for (const auto& reply : waiting) reply(true);
  }

  Desk& desk_;
  mutable std::mutex mutex_;
  std::map<UpdateId, Entry> entries_;  // guarded by mutex_
};

}  // namespace fedqueue::http
