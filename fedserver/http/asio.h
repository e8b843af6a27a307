// Asio with coroutines, and the two ways in which a coroutine of this folder waits for something
// that Asio does not know: a reply of the driver, or work that blocks.
//
// A coroutine must not name temporaries with captures inside a co_await expression: GCC 12 destroys
// them twice. Give the lambda a name first.
#pragma once

// clang-format off
#include <utility>  // first: Asio 1.74 uses std::exchange without including it
// clang-format on

#include <boost/asio/associated_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <memory>
#include <type_traits>

namespace fedqueue::http {

namespace asio = boost::asio;

template <typename T>
using Task = asio::awaitable<T>;

// Suspends the coroutine and calls start(complete). The coroutine goes on, on its own executor,
// when complete(value) is called, once, from any thread.
template <typename T, typename Start>
Task<T> suspend(Start start) {
  co_return co_await asio::async_initiate<const asio::use_awaitable_t<>&, void(T)>(
      [](auto handler, Start begin) {
        // `begin` lives on this thread's stack: the coroutine may have gone on, and be gone,
        // before begin() returns.
        const auto executor = asio::get_associated_executor(handler);
        auto waiting = std::make_shared<decltype(handler)>(std::move(handler));
        std::function<void(T)> complete = [waiting, executor](T value) {
          asio::post(executor, [waiting, value = std::move(value)]() mutable {
            (*waiting)(std::move(value));
          });
        };
        waiting.reset();
        begin(std::move(complete));
      },
      asio::use_awaitable, std::move(start));
}

// Runs work() on another executor and brings its value back.
template <typename Work>
Task<std::invoke_result_t<Work>> offload(asio::any_io_executor executor, Work work) {
  using Value = std::invoke_result_t<Work>;
  auto start = [executor, work = std::move(work)](std::function<void(Value)> complete) mutable {
    asio::post(executor, [work = std::move(work), complete = std::move(complete)]() mutable {
      complete(work());
    });
  };
  co_return co_await suspend<Value>(std::move(start));
}

}  // namespace fedqueue::http
