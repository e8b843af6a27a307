#include "fedclient/scheduler/command.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>

#include "core/base/file.h"
#include "core/base/text.h"

namespace fedqueue {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  FileDescriptor read;
  FileDescriptor write;
};

Result<Pipe> make_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return storage_error("make a pipe", errno);
  return Pipe{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// By the PATH of the environment that the program will have; empty if there is none.
std::string find_program(const CommandLine& command) {
  const std::string& name = command.arguments.front();
  if (name.find('/') != std::string::npos) return name;
  const auto path = command.environment.find("PATH");
  for (const std::string& directory :
       split(path == command.environment.end() ? "/usr/bin:/bin" : path->second, ':')) {
    const std::string candidate = (directory.empty() ? "." : directory) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

// Only what is safe between fork and exec.
[[noreturn]] void become(const char* program, char* const* arguments, char* const* environment,
                         int output, int errors, int failure) {
  ::setpgid(0, 0);  // so that the kill timer reaches its children too
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, 0);
  ::dup2(output, 1);
  ::dup2(errors, 2);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int number : {SIGINT, SIGTERM, SIGPIPE, SIGHUP}) ::signal(number, SIG_DFL);
  ::execve(program, arguments, environment);
  const int reason = errno;
  [[maybe_unused]] const ssize_t told = ::write(failure, &reason, sizeof reason);
  ::_exit(127);
}

// False at the end of the stream.
bool take(int fd, std::string& text, std::size_t bytes_max) {
  char buffer[65536];
  const ssize_t count = ::read(fd, buffer, sizeof buffer);
  if (count < 0) return errno == EINTR || errno == EAGAIN;
  if (count == 0) return false;
  const std::size_t room = bytes_max - std::min(bytes_max, text.size());
  text.append(buffer, std::min(static_cast<std::size_t>(count), room));
  return true;
}

// Reads both streams until they end or the time is over; false then.
bool collect(int output, int errors, const CommandLine& command, CommandResult& result) {
  const auto end = Clock::now() + command.time_max;
  pollfd streams[2] = {{output, POLLIN, 0}, {errors, POLLIN, 0}};
  while (streams[0].fd >= 0 || streams[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now());
    if (left.count() <= 0) return false;
    const int ready = ::poll(streams, 2, static_cast<int>(std::min<long>(left.count(), 1 << 30)));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    if (streams[0].revents != 0 && !take(output, result.output, command.output_bytes_max)) {
      streams[0].fd = -1;
    }
    if (streams[1].revents != 0 && !take(errors, result.errors, command.output_bytes_max)) {
      streams[1].fd = -1;
    }
  }
  return true;
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Result<CommandResult> run_command(const CommandLine& command) {
  FEDQUEUE_ASSERT(!command.arguments.empty());
  const std::string program = find_program(command);
  if (program.empty()) {
    return Error{Code::not_found, "there is no '" + command.arguments[0] + "' in PATH", ""};
  }
  Result<Pipe> output = make_pipe();
  if (!output) return output.error();
  Result<Pipe> errors = make_pipe();
  if (!errors) return errors.error();
  Result<Pipe> failure = make_pipe();
  if (!failure) return failure.error();
  std::vector<std::string> arguments = command.arguments;
  std::vector<std::string> environment;
  for (const auto& [name, value] : command.environment) environment.push_back(name + "=" + value);
  const std::vector<char*> argument_list = pointers(arguments);
  const std::vector<char*> environment_list = pointers(environment);

  const pid_t child = ::fork();
  if (child < 0) return storage_error("start '" + command.arguments[0] + "'", errno);
  if (child == 0) {
    become(program.c_str(), argument_list.data(), environment_list.data(), output->write.get(),
           errors->write.get(), failure->write.get());
  }
  output->write.reset();
  errors->write.reset();
  failure->write.reset();
  int reason = 0;
  if (::read(failure->read.get(), &reason, sizeof reason) == sizeof reason) {
    wait_for(child);
    return Error{reason == ENOENT ? Code::not_found : Code::internal,
                 "cannot start '" + command.arguments[0] + "': " + std::strerror(reason), ""};
  }
  CommandResult result;
  result.timed_out = !collect(output->read.get(), errors->read.get(), command, result);
  if (result.timed_out) ::kill(-child, SIGKILL);
  result.exit_code = wait_for(child);
  return result;
}

std::string shell_text(const std::vector<std::string>& arguments) {
  std::string text;
  for (const std::string& argument : arguments) {
    if (!text.empty()) text += ' ';
    const bool plain =
        !argument.empty() && argument.find_first_not_of(
                                 "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                 "-_=./:,%@+") == std::string::npos;
    if (plain) {
      text += argument;
      continue;
    }
    text += '\'';
    for (const char character : argument) {
      if (character == '\'') {
        text += "'\\''";
      } else {
        text += character;
      }
    }
    text += '\'';
  }
  return text;
}

}  // namespace fedqueue
