// Questions that are out with somebody else (the driver, the screening, another request), so that
// the server can end while they are.
//
// Promises: every question is answered once, by its answer or, when the desk closes, by nothing;
// an answer that comes after that is dropped. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "fedserver/http/asio.h"

namespace fedqueue::http {

class Desk {
 public:
  // Calls start(reply), and waits until reply(answer) is called. Nothing: the desk was closed.
  template <typename T, typename Start>
  Task<std::optional<T>> ask(Start start) {
    auto begin = [open = open_, start = std::move(start)](
                     std::function<void(std::optional<T>)> complete) mutable {
      const std::optional<std::uint64_t> ticket = open->enter([complete] { complete({}); });
      if (!ticket) return complete({});
      start([open, ticket = *ticket, complete](T answer) {
        if (open->leave(ticket)) complete(std::move(answer));
      });
    };
    co_return co_await suspend<std::optional<T>>(std::move(begin));
  }

  // Answers every open question with nothing, and later ones at once.
  void close() { open_->close(); }

 private:
  class Open {
   public:
    std::optional<std::uint64_t> enter(std::function<void()> give_up) {
      const std::lock_guard lock(mutex_);
      if (closed_) return std::nullopt;
      waiting_.emplace(++last_, std::move(give_up));
      return last_;
    }
    bool leave(std::uint64_t ticket) {
      const std::lock_guard lock(mutex_);
      return waiting_.erase(ticket) > 0;
    }
    void close() {
      std::map<std::uint64_t, std::function<void()>> waiting;
      {
        const std::lock_guard lock(mutex_);
        closed_ = true;
        waiting.swap(waiting_);
      }
      for (const auto& [ticket, give_up] : waiting) give_up();
    }

   private:
    std::mutex mutex_;
    std::map<std::uint64_t, std::function<void()>> waiting_;  // guarded by mutex_
    std::uint64_t last_ = 0;                                  // guarded by mutex_
    bool closed_ = false;                                     // guarded by mutex_
  };

  std::shared_ptr<Open> open_ = std::make_shared<Open>();
};

}  // namespace fedqueue::http
