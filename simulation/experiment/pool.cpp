#include "simulation/experiment/pool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <list>
#include <optional>
#include <string>

#include "core/base/assert.h"
#include "core/base/file.h"

namespace fedqueue::simulation {
namespace {

constexpr int kPollMilliseconds = 200;

struct Child {
  pid_t process = 0;
  FileDescriptor output;
  CellKey key;
  std::string text;
};

CellResult failed(const CellKey& key, std::string why) {
  CellResult result;
  result.key = key;
  result.error = std::move(why);
  return result;
}

void write_whole(int fd, const std::string& text) {
  std::size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = ::write(fd, text.data() + sent, text.size() - sent);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;  // the parent is gone
    sent += static_cast<std::size_t>(count);
  }
}

[[noreturn]] void be_child(int fd, const CellKey& key, const PoolHooks& hooks) {
  CellResult result;
  try {
    result = hooks.compute(key);
    result.key = key;
  } catch (const std::exception& exception) {
    result = failed(key, std::string("the cell ended with an exception: ") + exception.what());
  }
  write_whole(fd, encode(result));
  ::_exit(0);
}

Result<Child> start(const CellKey& key, const PoolHooks& hooks) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return storage_error("start a cell: make a pipe", errno);
  FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const pid_t process = ::fork();
  if (process < 0) return storage_error("start a cell: fork", errno);
  if (process == 0) {
    ::signal(SIGINT, SIG_DFL);
    ::signal(SIGTERM, SIG_DFL);
    be_child(write_end.get(), key, hooks);
  }
  return Child{process, std::move(read_end), key, ""};
}

// True at the end of the child's output.
bool drain(Child& child) {
  char buffer[65536];
  for (;;) {
    const ssize_t count = ::read(child.output.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    child.text.append(buffer, static_cast<std::size_t>(count));
    if (count < static_cast<ssize_t>(sizeof buffer)) return false;
  }
}

CellResult collect(const Child& child) {
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return failed(child.key, "the cell's process was ended by signal " + std::to_string(number) +
                                 " (" + ::strsignal(number) + ")");
  }
  Result<CellResult> result = decode_cell(child.text);
  if (!result) return failed(child.key, result.error().message);
  return *result;
}

void end_all(std::list<Child>& children) {
  for (const Child& child : children) ::kill(child.process, SIGTERM);
  for (const Child& child : children) {
    while (::waitpid(child.process, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  children.clear();
}

// Waits a little for output; the children that have finished are moved out.
std::list<Child> wait_for_some(std::list<Child>& children) {
  std::vector<pollfd> descriptors;
  for (const Child& child : children) descriptors.push_back({child.output.get(), POLLIN, 0});
  ::poll(descriptors.data(), descriptors.size(), kPollMilliseconds);
  std::list<Child> finished;
  std::size_t index = 0;
  for (auto child = children.begin(); child != children.end(); ++index) {
    const auto following = std::next(child);
    if (descriptors[index].revents != 0 && drain(*child))
      finished.splice(finished.end(), children, child);
    child = following;
  }
  return finished;
}

}  // namespace

Status run_cells(std::span<const CellKey> cells, int processes, const PoolHooks& hooks) {
  FEDQUEUE_ASSERT(processes >= 1);
  std::list<Child> children;
  std::size_t next = 0;
  while (next < cells.size() || !children.empty()) {
    if (hooks.interrupted()) {
      end_all(children);
      return Error{Code::try_again, "run the cells: interrupted",
                   "Start the same command again: finished cells are kept."};
    }
    while (next < cells.size() && children.size() < static_cast<std::size_t>(processes)) {
      Result<Child> child = start(cells[next++], hooks);
      if (!child) {
        end_all(children);
        return child.error();
      }
      children.push_back(std::move(*child));
    }
    for (const Child& child : wait_for_some(children)) {
      if (Status status = hooks.finished(collect(child)); !status) {
        end_all(children);
        return status;
      }
    }
  }
  return {};
}

}  // namespace fedqueue::simulation
