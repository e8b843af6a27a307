// Structured log lines for people (text) and for programs (JSON lines), from one call.
//
//   2026-05-04T12:00:00.000Z INFO  agent run=mnist facility=site-a job=10001 msg="submitted"
//   {"time":"2026-05-04T12:00:00.000Z","level":"info","component":"agent",...,"msg":"submitted"}
//
// Promises: one line per call, whatever the values contain (control characters are escaped, so that
// a peer's text cannot forge a line); every line leaves in one write(2), so that lines of several
// processes that append to one file stay whole. A line that cannot be written is counted, never an
// error of the caller: a full disk must not stop a run. Secrets are the caller's business: whatever
// is passed is written.
//
// Thread-safe. A Log is a cheap handle; copies share the sinks.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/ids.h"
#include "core/base/result.h"

namespace fedqueue {

enum class LogLevel : int { debug, info, warning, error };

// "debug", "info", "warning" or "error".
[[nodiscard]] const char* log_level_name(LogLevel level);
[[nodiscard]] std::optional<LogLevel> log_level_named(std::string_view name);

// One key=value. Keys are words of the program, `[a-z0-9_]+`; values may be anything.
class LogField {
 public:
  LogField(std::string_view name, std::string_view text) : key(name), value(text), bare(false) {}
  LogField(std::string_view name, const char* text) : LogField(name, std::string_view(text)) {}
  LogField(std::string_view name, const std::string& text)
      : LogField(name, std::string_view(text)) {}
  LogField(std::string_view name, const std::filesystem::path& path)
      : LogField(name, std::string_view(path.native())) {}
  template <typename Tag>
  LogField(std::string_view name, const Name<Tag>& id)
      : LogField(name, std::string_view(id.str())) {}
  template <std::same_as<bool> Flag>
  LogField(std::string_view name, Flag flag)
      : key(name), value(flag ? "true" : "false"), bare(true) {}
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) LogField(std::string_view name, Integer integer)
      : key(name), value(std::to_string(integer)), bare(true) {}
  LogField(std::string_view name, double real);

  std::string key;
  std::string value;
  bool bare;  // a number or a flag: JSON needs no quotes around it
};

struct LogOptions {
  LogLevel threshold = LogLevel::info;
  int text_descriptor = 2;          // not owned; -1 for no text
  std::filesystem::path json_file;  // appended to; empty for none
};

class Log {
 public:
  // A log that writes nothing, so that a library's log argument can have a default.
  Log() = default;

  // Opens the JSON file, if one is named.
  static Result<Log> create(const LogOptions& options, std::string_view component,
                            std::initializer_list<LogField> context = {});

  // The same sinks with more context fields, or for another component with the same context.
  [[nodiscard]] Log with(std::initializer_list<LogField> context) const;
  [[nodiscard]] Log for_component(std::string_view component) const;

  [[nodiscard]] bool enabled(LogLevel level) const;

  void debug(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::debug, message, {fields.begin(), fields.size()});
  }
  void info(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::info, message, {fields.begin(), fields.size()});
  }
  void warning(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::warning, message, {fields.begin(), fields.size()});
  }
  void error(std::string_view message, std::initializer_list<LogField> fields = {}) const {
    write(LogLevel::error, message, {fields.begin(), fields.size()});
  }
  // A failure with its code and cure: `… code=network-refused cure="…" msg="…"`.
  void error(const Error& failure, std::initializer_list<LogField> fields = {}) const;

  // For fields gathered at run time.
  void write(LogLevel level, std::string_view message, std::span<const LogField> fields) const;

  // Lines that could not be written to one of the sinks.
  [[nodiscard]] std::uint64_t lines_lost() const;

 private:
  struct Sinks;
  std::shared_ptr<Sinks> sinks_;
  std::string component_;
  // The context, rendered once.
  std::string text_context_;
  std::string json_context_;
};

}  // namespace fedqueue
