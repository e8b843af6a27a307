// Link::upload_update: the requests that the UploadMachine asks for.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "core/base/digest.h"
#include "core/base/file.h"
#include "core/base/text.h"
#include "fedclient/link/faults.h"
#include "fedclient/link/link_state.h"

namespace fedqueue {
namespace {

constexpr std::size_t hash_bytes = 8u << 20;

class FileSource : public BodySource {
 public:
  FileSource(int fd, std::filesystem::path path, std::uint64_t begin, std::uint64_t end)
      : fd_(fd), path_(std::move(path)), end_(end), at_(begin) {}

  Result<std::size_t> read(std::span<std::byte> bytes) override {
    const std::size_t wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), end_ - at_));
    for (;;) {
      const ssize_t count = ::pread(fd_, bytes.data(), wanted, static_cast<off_t>(at_));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return storage_error("read '" + path_.string() + "'", errno);
      if (count == 0 && wanted > 0) {
        return Error{Code::storage, "'" + path_.string() + "' became shorter while it was sent",
                     ""};
      }
      at_ += static_cast<std::uint64_t>(count);
      return static_cast<std::size_t>(count);
    }
  }

 private:
  int fd_;
  std::filesystem::path path_;
  std::uint64_t end_;
  std::uint64_t at_;
};

// Mapped rather than read: the pages are wanted again right away, and a copy would cost as much as
// the hash itself.
Result<std::string> digest_of(int fd, std::uint64_t bytes, const std::filesystem::path& path) {
  Xxh128 digest;
  for (std::uint64_t at = 0; at < bytes; at += hash_bytes) {
    const std::size_t size =
        static_cast<std::size_t>(std::min<std::uint64_t>(hash_bytes, bytes - at));
    void* data =
        ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(at));
    if (data == MAP_FAILED) return storage_error("read '" + path.string() + "'", errno);
    digest.update({static_cast<const std::byte*>(data), size});
    ::munmap(data, size);
  }
  return digest.hex();
}

struct Sending {
  UpdateId id;
  std::string path;  // below the run
  int fd = -1;
  std::filesystem::path file;
  std::uint64_t bytes = 0;
  std::vector<std::string> headers;
};

Result<UpdateAnswer> read_answer(const std::string& body) {
  Result<UpdateAnswer> answer = decode<UpdateAnswer>(body);
  if (!answer) {
    return Error{
        Code::network,
        "the server's answer to the update cannot be understood: " + answer.error().message, ""};
  }
  return answer;
}

Result<UpdateAnswer> get_answer(Transport& transport, const std::string& path) {
  Exchange exchange;
  exchange.path = path;
  Result<Answer> answer = transport.perform(exchange);
  if (!answer) return answer.error();
  if (!answer->ok()) return answer_error(answer->status, answer->body);
  return read_answer(answer->body);
}

// HEAD: the answer if there is one already, otherwise where to go on.
struct Probe {
  bool known = false;
  bool decided = false;
  std::uint64_t offset = 0;
};

Result<Probe> probe(Transport& transport, const std::string& path, const std::string& token) {
  Exchange exchange;
  exchange.method = "HEAD";
  exchange.path = path;
  if (!token.empty()) exchange.headers.push_back(std::string(header_token) + ": " + token);
  Result<Answer> answer = transport.perform(exchange);
  if (!answer) return answer.error();
  Probe result;
  if (answer->status == 404) return result;
  if (!answer->ok()) {
    // An answer to HEAD has no body, and so no reason; the same question as GET has one.
    Exchange ask;
    ask.path = path;
    // A busy server is not asked twice: its reason will be another next time.
    if (answer->status < 500) {
      Result<Answer> reason = transport.perform(ask);
      if (reason && !reason->ok()) answer = std::move(reason);
    }
    return answer_error(answer->status, answer->body);
  }
  result.known = true;
  result.decided = answer->header("fedqueue-state") == "stored";
  const std::optional<std::int64_t> offset = parse_integer(answer->header("fedqueue-offset"));
  if (!result.decided && (!offset || *offset < 0)) {
    return Error{Code::network, "the server did not say how much of the update it has", ""};
  }
  result.offset = static_cast<std::uint64_t>(offset.value_or(0));
  return result;
}

Result<UpdateAnswer> put(Transport& transport, const Sending& sending, std::uint64_t offset) {
  FileSource source(sending.fd, sending.file, offset, sending.bytes);
  Exchange exchange;
  exchange.method = "PUT";
  exchange.path = sending.path;
  exchange.transfer = true;
  exchange.source = &source;
  exchange.source_bytes = sending.bytes - offset;
  exchange.headers = sending.headers;
  const std::string total = std::to_string(sending.bytes);
  // All bytes are there and only the decision is missing: an empty range asks for it.
  exchange.headers.push_back(
      "Content-Range: bytes " +
      (offset == sending.bytes ? std::string("*")
                               : std::to_string(offset) + "-" + std::to_string(sending.bytes - 1)) +
      "/" + total);
  Result<Answer> answer = transport.perform(exchange);
  if (!answer) return answer.error();
  if (answer->ok()) return read_answer(answer->body);
  Error error = answer_error(answer->status, answer->body);
  // The server holds another number of bytes than it said before: ask again.
  if (error.code == Code::conflict && !answer->header("fedqueue-offset").empty()) {
    error.code = Code::try_again;
  }
  return error;
}

}  // namespace

Result<std::optional<UpdateAnswer>> Link::update_answer(const UpdateId& id) {
  Transport& transport = *state_->transport;
  const std::string path = "updates/" + id.str();
  Result<Probe> probed = probe(transport, path, "");
  if (!probed) return probed.error();
  if (!probed->decided) return std::optional<UpdateAnswer>();
  Result<UpdateAnswer> answer = get_answer(transport, path);
  if (!answer) return answer.error();
  return std::optional<UpdateAnswer>(std::move(*answer));
}

Result<UpdateAnswer> Link::ask_next(const UpdateId& id) {
  return get_answer(*state_->transport, "updates/" + id.str());
}

Result<UpdateAnswer> Link::upload_update(const UpdateId& id, const std::filesystem::path& path,
                                         const UpdateMetadata& metadata, const std::string& token,
                                         const RetryPolicy& retry) {
  const std::string attempted = "upload update " + id.str();
  Result<FileDescriptor> file = open_file(path, O_RDONLY);
  if (!file) return within(attempted, file.error());
  struct stat status {};
  if (::fstat(file->get(), &status) != 0) {
    return within(attempted, storage_error("read '" + path.string() + "'", errno));
  }
  if (!S_ISREG(status.st_mode) || status.st_size == 0) {
    return within(attempted, {Code::model_format, "'" + path.string() + "' is empty", ""});
  }
  Sending sending{
      id, "updates/" + id.str(), file->get(), path, static_cast<std::uint64_t>(status.st_size), {}};
  Result<std::string> digest = digest_of(file->get(), sending.bytes, path);
  if (!digest) return within(attempted, digest.error());
  sending.headers = {std::string(header_digest) + ": " + *digest,
                     std::string(header_metadata) + ": " + encode(metadata),
                     std::string(header_token) + ": " + token,
                     "Content-Type: application/octet-stream"};
  Transport& transport = *state_->transport;
  UploadMachine machine(sending.bytes, retry);
  auto since = std::chrono::steady_clock::now();
  const auto failed = [&](const Error& error) {
    const auto now = std::chrono::steady_clock::now();
    machine.failed(error, std::chrono::duration_cast<Duration>(now - since),
                   state_->random.uniform());
    since = now;
  };
  for (;;) {
    switch (machine.step()) {
      case UploadMachine::Step::probe: {
        Result<Probe> probed = probe(transport, sending.path, token);
        if (!probed) {
          failed(probed.error());
        } else if (!probed->decided) {
          machine.offset_known(probed->offset);
        } else if (Result<UpdateAnswer> answer = get_answer(transport, sending.path); answer) {
          machine.answered(std::move(*answer));
        } else {
          failed(answer.error());
        }
        break;
      }
      case UploadMachine::Step::send: {
        Result<UpdateAnswer> answer = put(transport, sending, machine.offset());
        if (answer) {
          machine.answered(std::move(*answer));
        } else {
          failed(answer.error());
        }
        break;
      }
      case UploadMachine::Step::wait:
        if (!transport.pause(machine.delay())) {
          return within(attempted, {Code::try_again, "interrupted", ""});
        }
        machine.waited();
        break;
      case UploadMachine::Step::done:
        return machine.answer();
      case UploadMachine::Step::failed:
        return within(attempted, machine.error());
    }
  }
}

}  // namespace fedqueue
