// A server on loopback with real certificates, a real registry and real blobs; the engine's part is
// played by the test.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/digest.h"
#include "fedserver/certificates/commands.h"
#include "fedserver/certificates/registry.h"
#include "fedserver/http/server.h"
#include "tests/unit/core/config/scratch.h"
#include "tests/unit/fedserver/http/tls_client.h"

namespace fedqueue::http::test {

inline UpdateAnswer counted(const UpdateId& id) {
  UpdateAnswer answer;
  answer.id = id;
  answer.disposition = Disposition::counted;
  answer.next.kind = Next::Kind::stop;
  return answer;
}

inline Error not_known(const UpdateId& id) {
  return {Code::not_found, "update " + id.str() + " is not known", ""};
}

// Plays the driver: answers at once with what the test's rule says, and remembers the events.
class FakeDriver {
 public:
  using Rule = std::function<Answer(const Event&)>;

  bool post(Event event, fedqueue::Reply reply) {
    Rule rule;
    {
      const std::lock_guard lock(mutex_);
      if (full_) return false;
      events_.push_back(event);
      rule = rule_;
      if (holding_) {
        held_.push_back(std::move(reply));
        changed_.notify_all();
        return true;
      }
    }
    changed_.notify_all();
    Answer answer = rule ? rule(event) : Answer(Accepted{});
    if (reply) reply(std::move(answer));
    return true;
  }
  void answer_with(Rule rule) {
    const std::lock_guard lock(mutex_);
    rule_ = std::move(rule);
  }
  // From now on nothing is answered before release().
  void hold() {
    const std::lock_guard lock(mutex_);
    holding_ = true;
  }
  void wait_for_held(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return held_.size() >= count; });
  }
  void release(const Answer& answer) {
    std::vector<fedqueue::Reply> held;
    {
      const std::lock_guard lock(mutex_);
      holding_ = false;
      held.swap(held_);
    }
    for (const fedqueue::Reply& reply : held) reply(answer);
  }
  void set_full(bool full) {
    const std::lock_guard lock(mutex_);
    full_ = full;
  }
  template <typename T>
  std::vector<T> seen() {
    const std::lock_guard lock(mutex_);
    std::vector<T> found;
    for (const Event& event : events_) {
      if (const T* one = std::get_if<T>(&event)) found.push_back(*one);
    }
    return found;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Event> events_;
  Rule rule_;
  bool full_ = false;
  bool holding_ = false;
  std::vector<fedqueue::Reply> held_;
};

class HttpTest : public ::testing::Test {
 protected:
  HttpTest() {
    run_.files.run_directory = scratch_ / "run";
    run_.run = "mnist";
    run_.server_url = "https://127.0.0.1:8443";
  }
  void SetUp() override {
    ASSERT_TRUE(create_certificates(run_, {{"localhost"}, {"127.0.0.1", "::1"}}));
    for (const char* name : {"site-a", "site-b"}) kit(IdentityKind::facility, name);
    kit(IdentityKind::administrator, "ada");
    kit(IdentityKind::observer, "otto");
    registry_ = std::make_unique<Registry>(std::move(*Registry::open(run_.files.registry())));
    start({});
  }
  void TearDown() override { server_.reset(); }

  void kit(IdentityKind kind, const std::string& name) {
    ClientCertificateOrder order{.identity = {kind, name}};
    if (kind == IdentityKind::facility) order.samples = 600;
    ASSERT_TRUE(issue_client_certificate(run_, order));
  }

  // Starts (again) with other limits; the blobs stay.
  void start(BlobLimits limits, HttpLimits http_limits = {}) {
    server_.reset();
    blobs_.reset();
    limits.free_bytes_min = 0;
    auto opened = BlobStore::open(scratch_ / "blobs", limits);
    ASSERT_TRUE(opened) << opened.error().message;
    blobs_ = std::move(*opened);
    HttpConfig config;
    config.run = "mnist";
    config.tls = {run_.files.authority() / "ca.crt", run_.files.server_certificate(),
                  run_.files.server_key()};
    config.status_port = 0;
    config.limits = http_limits;
    config.limits.event_heartbeat = std::chrono::milliseconds(200);
    HttpPorts ports;
    ports.post = [this](Event event, fedqueue::Reply reply) {
      return driver_.post(std::move(event), std::move(reply));
    };
    ports.rows = [this](std::int64_t after, std::size_t limit) { return rows(after, limit); };
    ports.screen = [this](const std::filesystem::path& path, const UpdateMetadata& metadata,
                          std::function<void(Result<double>)> done) {
      done(screen_ ? screen_(path, metadata) : Result<double>(1.5));
    };
    ports.admit = admission_by(*registry_);
    ports.blobs = blobs_.get();
    ports.models = &models_;
    ports.feed = &feed_;
    ports.metrics = &metrics_;
    auto started = HttpServer::start(std::move(config), std::move(ports));
    ASSERT_TRUE(started) << started.error().message;
    server_ = std::move(*started);
  }

  [[nodiscard]] Client::Files files(IdentityKind kind, const std::string& name) const {
    const auto folder = run_.files.kit({kind, name});
    return {folder / "ca.crt", folder / "client.crt", folder / "client.key"};
  }
  [[nodiscard]] Client::Files site(const std::string& name) const {
    return files(IdentityKind::facility, name);
  }
  Client connect(const std::string& facility = "site-a") {
    return Client(server_->port(), site(facility));
  }

  // One journal row that every observer has seen.
  void happen(const Fact& fact) {
    JournalRow row;
    {
      const std::lock_guard lock(mutex_);
      row = {static_cast<std::int64_t>(rows_.size()) + 1, Instant{}, fact_kind(fact),
             encode_fact(fact)};
      rows_.push_back(row);
    }
    models_.on_replayed(row, fact);
    feed_.on_replayed(row, fact);
  }
  Result<std::vector<JournalRow>> rows(std::int64_t after, std::size_t limit) {
    const std::lock_guard lock(mutex_);
    std::vector<JournalRow> found;
    for (const JournalRow& row : rows_) {
      if (row.sequence > after && found.size() < limit) found.push_back(row);
    }
    return found;
  }
  void publish(Version version, const std::string& content) {
    const std::string file = BlobStore::model_file(version);
    std::ofstream(blobs_->model_path(file), std::ios::binary) << content;
    const ModelRecord model{version, file, sha256_hex(content), content.size()};
    happen(version == 0 ? Fact(RunOpened{"mnist", model}) : Fact(Published{model, 0.5}));
  }

  Scratch scratch_;
  CertificateRun run_;
  std::unique_ptr<Registry> registry_;
  std::unique_ptr<BlobStore> blobs_;
  ModelIndex models_;
  FactFeed feed_;
  Metrics metrics_;
  FakeDriver driver_;
  std::function<Result<double>(const std::filesystem::path&, const UpdateMetadata&)> screen_;
  std::mutex mutex_;
  std::vector<JournalRow> rows_;  // guarded by mutex_
  std::unique_ptr<HttpServer> server_;
};

}  // namespace fedqueue::http::test
