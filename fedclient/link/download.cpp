// Link::download_model: streamed to a temporary file, hashed on the way, resumed after cuts.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <vector>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "fedclient/link/faults.h"
#include "fedclient/link/link_state.h"

namespace fedqueue {
namespace {

constexpr std::size_t buffer_bytes = 1u << 20;

// The part of the model that has arrived, over several exchanges.
class Part {
 public:
  Part(std::filesystem::path path, FileDescriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {
    buffer_.reserve(buffer_bytes);
  }
  ~Part() {
    if (!kept_) ::unlink(path_.c_str());
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  static Result<std::unique_ptr<Part>> create(const std::filesystem::path& target) {
    std::filesystem::path path = target;
    path += ".part-" + std::to_string(::getpid());
    Result<FileDescriptor> fd = open_file(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (!fd) return fd.error();
    return std::make_unique<Part>(std::move(path), std::move(*fd));
  }

  // The head of an answer: does the body go on where the file ends, or begin again?
  Status begin(const Answer& head) {
    const std::string etag = head.header("etag");
    if (head.status == 206 && etag == etag_ &&
        trim(head.header("content-range")).rfind("bytes " + std::to_string(bytes_) + "-", 0) == 0) {
      return {};
    }
    if (head.status == 206) {
      return Error{Code::network, "the server sent another part of the model than asked for", ""};
    }
    etag_ = etag;
    total_ = parse_integer(head.header("content-length")).value_or(-1);
    return restart();
  }

  Status append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const std::size_t count = std::min(bytes.size(), buffer_bytes - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(), bytes.begin() + static_cast<long>(count));
      bytes = bytes.subspan(count);
      if (buffer_.size() == buffer_bytes) {
        if (Status flushed = flush(); !flushed) return flushed.error();
      }
    }
    return {};
  }

  Status flush() {
    if (Status written = write_all(fd_.get(), buffer_, path_); !written) return written.error();
    sha256_.update(buffer_);
    bytes_ += buffer_.size();
    buffer_.clear();
    return {};
  }

  Status restart() {
    buffer_.clear();
    bytes_ = 0;
    sha256_ = Sha256();
    if (::ftruncate(fd_.get(), 0) != 0 || ::lseek(fd_.get(), 0, SEEK_SET) != 0) {
      return storage_error("empty '" + path_.string() + "'", errno);
    }
    return {};
  }

  Status publish(const std::filesystem::path& target) {
    if (::fsync(fd_.get()) != 0) return storage_error("flush '" + path_.string() + "'", errno);
    if (::rename(path_.c_str(), target.c_str()) != 0) {
      return storage_error("rename '" + path_.string() + "' to '" + target.string() + "'", errno);
    }
    kept_ = true;
    const std::filesystem::path parent = target.parent_path();
    return sync_directory(parent.empty() ? "." : parent);
  }

  [[nodiscard]] bool complete() const {
    return total_ >= 0 && bytes_ == static_cast<std::uint64_t>(total_);
  }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::string& etag() const { return etag_; }
  [[nodiscard]] std::string sha256() const { return sha256_.hex(); }

 private:
  std::filesystem::path path_;
  FileDescriptor fd_;
  std::vector<std::byte> buffer_;
  std::uint64_t bytes_ = 0;
  std::int64_t total_ = -1;
  std::string etag_;
  Sha256 sha256_;
  bool kept_ = false;
};

std::string unquoted(const std::string& etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    return etag.substr(1, etag.size() - 2);
  }
  return etag;
}

// One GET; what arrived stays in the part whatever became of the exchange.
Status fetch_more(Transport& transport, Version version, Part& part) {
  Exchange exchange;
  exchange.path = "models/" + std::to_string(version);
  exchange.transfer = true;
  if (part.bytes() > 0) {
    exchange.headers = {"Range: bytes=" + std::to_string(part.bytes()) + "-",
                        "If-Range: " + part.etag()};
  }
  bool begun = false;
  std::optional<Error> local;
  exchange.sink = [&](const Answer& head, std::span<const std::byte> bytes) {
    if (!begun) {
      begun = true;
      if (Status fits = part.begin(head); !fits) local = fits.error();
    }
    if (!local) {
      if (Status written = part.append(bytes); !written) local = written.error();
    }
    return !local;
  };
  Result<Answer> answer = transport.perform(exchange);
  if (!local) {
    if (Status flushed = part.flush(); !flushed) local = flushed.error();
  }
  if (local) return *local;
  if (!answer) return answer.error();
  if (!answer->ok()) return answer_error(answer->status, answer->body);
  if (!part.complete()) {
    return Error{Code::network, "the model ended before its announced length", ""};
  }
  return {};
}

}  // namespace

Result<DownloadedModel> Link::download_model(std::optional<Version> version,
                                             const std::filesystem::path& path) {
  Transport& transport = *state_->transport;
  const RetryPolicy& retry = transport.config().retry;
  if (!version) {
    Result<Version> latest = latest_version();
    if (!latest) return latest.error();
    version = *latest;
  }
  const std::string attempted = "download version " + std::to_string(*version);
  Result<std::unique_ptr<Part>> part = Part::create(path);
  if (!part) return within(attempted, part.error());
  int failures = 0;
  bool differed = false;
  auto progress = std::chrono::steady_clock::now();
  for (;;) {
    const std::uint64_t before = (*part)->bytes();
    Status fetched = fetch_more(transport, *version, **part);
    const auto now = std::chrono::steady_clock::now();
    if (fetched) {
      const std::string expected = unquoted((*part)->etag());
      if ((*part)->sha256() == expected) {
        if (Status published = (*part)->publish(path); !published) {
          return within(attempted, published.error());
        }
        return DownloadedModel{*version, expected, (*part)->bytes()};
      }
      fetched = Error{
          Code::model_format,
          "the bytes that arrived have sha256 " + (*part)->sha256() + ", expected " + expected,
          "Ask the operator to check the server's disk."};
      if (std::exchange(differed, true)) return within(attempted, fetched.error());
      if (Status emptied = (*part)->restart(); !emptied) return emptied.error();
      continue;  // once more from the start
    }
    if ((*part)->bytes() > before) {
      progress = now;
      failures = 0;
    }
    if (!may_pass(fetched.error().code) || transport.config().interrupted() ||
        now - progress > retry.give_up_after) {
      return within(attempted, fetched.error());
    }
    ++failures;
    transport.config().log.warning(
        "download cut, going on",
        {{"version", *version}, {"bytes", (*part)->bytes()}, {"cause", fetched.error().message}});
    if (!transport.pause(backoff(retry, failures, state_->random.uniform()))) {
      return within(attempted, fetched.error());
    }
  }
}

}  // namespace fedqueue
