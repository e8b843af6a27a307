#include "core/base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <mutex>
#include <vector>

#include "core/base/file.h"
#include "core/base/text.h"

namespace fedqueue {
namespace {

constexpr const char* level_names[] = {"debug", "info", "warning", "error"};
constexpr const char* level_marks[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};

void append_escaped(std::string& line, std::string_view text) {
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (character == '"' || character == '\\') {
      line += '\\';
      line += character;
    } else if (character == '\n') {
      line += "\\n";
    } else if (character == '\t') {
      line += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", byte);
      line += code;
    } else {
      line += character;
    }
  }
}

void append_quoted(std::string& line, std::string_view text) {
  line += '"';
  if (is_utf8(text)) {
    append_escaped(line, text);
  } else {  // a broken byte would make the JSON line unreadable as a whole
    std::string readable(text);
    for (char& character : readable) {
      if (static_cast<unsigned char>(character) >= 0x80) character = '?';
    }
    append_escaped(line, readable);
  }
  line += '"';
}

bool plain(std::string_view value) {
  if (value.empty()) return false;
  for (const char character : value) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte <= 0x20 || byte >= 0x7f || character == '"' || character == '=' || character == '\\') {
      return false;
    }
  }
  return true;
}

void append_text_field(std::string& line, const LogField& field) {
  line += ' ';
  line += field.key;
  line += '=';
  if (field.bare || plain(field.value)) {
    line += field.value;
  } else {
    append_quoted(line, field.value);
  }
}

void append_json_field(std::string& line, const LogField& field) {
  line += ',';
  append_quoted(line, field.key);
  line += ':';
  if (field.bare) {
    line += field.value;
  } else {
    append_quoted(line, field.value);
  }
}

bool write_line(int descriptor, std::string_view line) {
  while (!line.empty()) {
    const ssize_t count = ::write(descriptor, line.data(), line.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    line.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

struct Log::Sinks {
  LogLevel threshold = LogLevel::info;
  int text_descriptor = -1;
  FileDescriptor json;
  std::atomic<std::uint64_t> lines_lost{0};
  // A write longer than a pipe's atomic size may be cut; the lock keeps this process's lines whole.
  std::mutex mutex;
};

const char* log_level_name(LogLevel level) { return level_names[static_cast<int>(level)]; }

std::optional<LogLevel> log_level_named(std::string_view name) {
  for (int i = 0; i < 4; ++i) {
    if (name == level_names[i]) return static_cast<LogLevel>(i);
  }
  return std::nullopt;
}

LogField::LogField(std::string_view name, double real) : key(name), bare(std::isfinite(real)) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", real);
  value = text;
}

Result<Log> Log::create(const LogOptions& options, std::string_view component,
                        std::initializer_list<LogField> context) {
  Log log;
  log.sinks_ = std::make_shared<Sinks>();
  log.sinks_->threshold = options.threshold;
  log.sinks_->text_descriptor = options.text_descriptor;
  log.component_ = component;
  if (!options.json_file.empty()) {
    // Not open_file(): an existing log keeps the mode its owner gave it.
    const int descriptor =
        ::open(options.json_file.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor < 0) {
      return storage_error("open the log '" + options.json_file.string() + "'", errno);
    }
    log.sinks_->json = FileDescriptor(descriptor);
  }
  return log.with(context);
}

Log Log::with(std::initializer_list<LogField> context) const {
  Log log = *this;
  for (const LogField& field : context) {
    append_text_field(log.text_context_, field);
    append_json_field(log.json_context_, field);
  }
  return log;
}

Log Log::for_component(std::string_view component) const {
  Log log = *this;
  log.component_ = component;
  return log;
}

bool Log::enabled(LogLevel level) const { return sinks_ && level >= sinks_->threshold; }

void Log::error(const Error& failure, std::initializer_list<LogField> fields) const {
  if (!enabled(LogLevel::error)) return;
  std::vector<LogField> all(fields);
  all.emplace_back("code", code_name(failure.code));
  if (!failure.cure.empty()) all.emplace_back("cure", failure.cure);
  write(LogLevel::error, failure.message, all);
}

void Log::write(LogLevel level, std::string_view message, std::span<const LogField> fields) const {
  if (!enabled(level)) return;
  const std::string time = utc_now();
  std::string text;
  if (sinks_->text_descriptor >= 0) {
    text = time + ' ' + level_marks[static_cast<int>(level)] + ' ' + component_ + text_context_;
    for (const LogField& field : fields) append_text_field(text, field);
    text += " msg=";
    append_quoted(text, message);
    text += '\n';
  }
  std::string json;
  if (sinks_->json) {
    json = "{\"time\":\"" + time + "\",\"level\":\"" + log_level_name(level) + "\",\"component\":";
    append_quoted(json, component_);
    json += json_context_;
    for (const LogField& field : fields) append_json_field(json, field);
    json += ",\"msg\":";
    append_quoted(json, message);
    json += "}\n";
  }
  const std::lock_guard lock(sinks_->mutex);
  bool written = true;
  if (!text.empty()) written = write_line(sinks_->text_descriptor, text);
  if (!json.empty()) written = write_line(sinks_->json.get(), json) && written;
  if (!written) sinks_->lines_lost.fetch_add(1, std::memory_order_relaxed);
}

std::uint64_t Log::lines_lost() const {
  return sinks_ ? sinks_->lines_lost.load(std::memory_order_relaxed) : 0;
}

}  // namespace fedqueue
