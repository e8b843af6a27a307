// Uploads.
#include <gtest/gtest.h>

#include <thread>

#include "core/base/digest.h"
#include "tests/unit/fedserver/http/http_fixture.h"

namespace fedqueue::http::test {
namespace {

class UpdatesTest : public HttpTest {
 protected:
  void SetUp() override {
    HttpTest::SetUp();
    for (int i = 0; i < 900'000; ++i) bytes_.push_back(static_cast<char>(i * 13 + i / 256));
    digest_ = xxh128_hex(std::as_bytes(std::span(bytes_.data(), bytes_.size())));
    // An engine that wants every update, decides it once, and remembers.
    driver_.answer_with([this](const Event& event) { return decide(event); });
  }
  Answer decide(const Event& event) {
    const std::lock_guard lock(decided_mutex_);
    if (const auto* stored = std::get_if<UpdateStored>(&event)) {
      decided_ = counted(stored->id);
      return *decided_;
    }
    if (const auto* refused = std::get_if<UpdateRefused>(&event)) {
      UpdateAnswer answer = counted(refused->id);
      answer.disposition = Disposition::rejected;
      answer.reason = refused->why.message;
      decided_ = answer;
      return answer;
    }
    if (decided_) return *decided_;
    if (const auto* asked = std::get_if<UpdateAsked>(&event)) return not_known(asked->id);
    return Accepted{};
  }

  [[nodiscard]] std::string head(const std::string& digest,
                                 const std::string& id = "site-a.1.0.1") {
    UpdateMetadata metadata;
    metadata.steps_run = 40;
    return "PUT /v1/runs/mnist/updates/" + id +
           " HTTP/1.1\r\nHost: x\r\nFedqueue-Digest: " + digest +
           "\r\nFedqueue-Job-Token: token\r\nFedqueue-Metadata: " + encode(metadata) + "\r\n";
  }
  static std::string range(std::uint64_t first, std::uint64_t last, std::uint64_t total) {
    return "Content-Range: bytes " + std::to_string(first) + "-" + std::to_string(last) + "/" +
           std::to_string(total) + "\r\n";
  }
  Reply put_all(const std::string& site_name = "site-a") {
    Client client = connect(site_name);
    return client.request(head(digest_), bytes_);
  }
  Reply ask(const std::string& verb, const std::string& id = "site-a.1.0.1") {
    Client client = connect();
    return client.request(verb + " /v1/runs/mnist/updates/" + id + " HTTP/1.1\r\nHost: x\r\n");
  }
  // Sends the first bytes of the whole and breaks off.
  void send_and_break_off(std::size_t count) {
    Client client = connect();
    ASSERT_TRUE(client.send(head(digest_) + "Content-Length: " + std::to_string(bytes_.size()) +
                            "\r\n\r\n" + bytes_.substr(0, count)));
    client.close();
  }
  // What the server has, once it has noticed the end of a connection.
  std::uint64_t settled_offset(std::uint64_t expected) {
    for (;;) {
      const Reply reply = ask("HEAD");
      if (reply.header("fedqueue-offset") == std::to_string(expected)) return expected;
      std::this_thread::yield();
    }
  }

  std::string bytes_;
  std::string digest_;
  std::mutex decided_mutex_;
  std::optional<UpdateAnswer> decided_;  // guarded by decided_mutex_
};

TEST_F(UpdatesTest, AWholeUpdateIsStoredThenDecided) {
  const Reply reply = put_all();
  EXPECT_EQ(reply.status, 201);
  EXPECT_EQ(reply.body, encode(counted(UpdateId("site-a.1.0.1"))));
  const auto stored = driver_.seen<UpdateStored>();
  ASSERT_EQ(stored.size(), 1u);
  EXPECT_EQ(stored[0].bytes, bytes_.size());
  EXPECT_EQ(stored[0].digest, digest_);
  EXPECT_EQ(stored[0].token, "token");
  EXPECT_EQ(stored[0].metadata.steps_run, 40);
  EXPECT_EQ(stored[0].norm, 1.5);
  EXPECT_TRUE(Scratch::content(blobs_->update_path(stored[0].id)) == bytes_);
}

TEST_F(UpdatesTest, AnUnknownUpdateIsNotFound) {
  EXPECT_EQ(ask("HEAD").status, 404);
  EXPECT_EQ(ask("GET").status, 404);
}

TEST_F(UpdatesTest, SendingAgainGivesTheSameAnswerByteForByte) {
  const Reply first = put_all();
  const Reply second = put_all();
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(second.body, first.body);
  EXPECT_EQ(ask("GET").body, first.body);
  EXPECT_EQ(driver_.seen<UpdateStored>().size(), 1u);
  const Reply known = ask("HEAD");
  EXPECT_EQ(known.status, 200);
  EXPECT_EQ(known.header("fedqueue-state"), "stored");
}

TEST_F(UpdatesTest, ACutUploadGoesOn) {
  send_and_break_off(500'000);
  ASSERT_EQ(settled_offset(500'000), 500'000u);
  EXPECT_TRUE(driver_.seen<UpdateStored>().empty());
  Client client = connect();
  const Reply reply = client.request(
      head(digest_) + range(500'000, bytes_.size() - 1, bytes_.size()), bytes_.substr(500'000));
  EXPECT_EQ(reply.status, 201);
  EXPECT_TRUE(Scratch::content(blobs_->update_path(UpdateId("site-a.1.0.1"))) == bytes_);
}

TEST_F(UpdatesTest, ACutUploadGoesOnAfterARestartOfTheServer) {
  send_and_break_off(500'000);
  ASSERT_EQ(settled_offset(500'000), 500'000u);
  start({});
  ASSERT_EQ(settled_offset(500'000), 500'000u);
  Client client = connect();
  const Reply reply = client.request(
      head(digest_) + range(500'000, bytes_.size() - 1, bytes_.size()), bytes_.substr(500'000));
  EXPECT_EQ(reply.status, 201);
}

TEST_F(UpdatesTest, PiecesInSeveralRequestsMakeOneUpdate) {
  Client client = connect();
  const Reply first =
      client.request(head(digest_) + range(0, 99'999, bytes_.size()), bytes_.substr(0, 100'000));
  EXPECT_EQ(first.status, 202);
  EXPECT_EQ(first.header("fedqueue-offset"), "100000");
  const Reply last = client.request(
      head(digest_) + range(100'000, bytes_.size() - 1, bytes_.size()), bytes_.substr(100'000));
  EXPECT_EQ(last.status, 201);
}

TEST_F(UpdatesTest, AGapIsRefusedWithThePlaceToGoOn) {
  send_and_break_off(1000);
  ASSERT_EQ(settled_offset(1000), 1000u);
  Client client = connect();
  const Reply reply = client.request(head(digest_) + range(2000, bytes_.size() - 1, bytes_.size()),
                                     bytes_.substr(2000));
  EXPECT_EQ(reply.status, 409);
  EXPECT_EQ(reply.header("fedqueue-offset"), "1000");
}

TEST_F(UpdatesTest, AWrongChecksumStartsOver) {
  Client client = connect();
  const Reply reply = client.request(head(std::string(32, '0')), bytes_);
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(reply.header("fedqueue-offset"), "0");
  EXPECT_NE(reply.body.find("checksum"), std::string::npos);
  EXPECT_TRUE(driver_.seen<UpdateStored>().empty());
  EXPECT_EQ(ask("HEAD").status, 404);
  EXPECT_EQ(put_all().status, 201);
}

TEST_F(UpdatesTest, NobodySendsForAnother) {
  const Reply reply = put_all("site-b");
  EXPECT_EQ(reply.status, 403);
  EXPECT_NE(reply.body.find("site-a"), std::string::npos);
  EXPECT_NE(reply.body.find("site-b"), std::string::npos);
  EXPECT_TRUE(driver_.seen<UploadOffered>().empty());
  EXPECT_EQ(ask("GET", "site-b.1.0.1").status, 403);
  EXPECT_EQ(ask("HEAD", "site-b.1.0.1").status, 403);
  EXPECT_EQ(ask("GET", "no-update-at-all").status, 400);
}

TEST_F(UpdatesTest, TheEngineIsAskedBeforeAnyByte) {
  driver_.answer_with([](const Event&) -> Answer {
    return Error{Code::wrong_base, "version 3 is too old", "Fetch the newest model."};
  });
  Client client = connect();
  ASSERT_TRUE(client.send(head(digest_) + "Expect: 100-continue\r\nContent-Length: " +
                          std::to_string(bytes_.size()) + "\r\n\r\n"));
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 409);
  EXPECT_NE(reply.body.find("too old"), std::string::npos);
  const auto offers = driver_.seen<UploadOffered>();
  ASSERT_EQ(offers.size(), 1u);
  EXPECT_EQ(offers[0].bytes, bytes_.size());
}

TEST_F(UpdatesTest, AClientThatWaitsIsToldToGoAhead) {
  Client client = connect();
  ASSERT_TRUE(client.send(head(digest_) + "Expect: 100-continue\r\nContent-Length: " +
                          std::to_string(bytes_.size()) + "\r\n\r\n"));
  EXPECT_EQ(client.read_reply().status, 100);
  ASSERT_TRUE(client.send(bytes_));
  EXPECT_EQ(client.read_reply().status, 201);
}

TEST_F(UpdatesTest, TooLargeIsRefusedBeforeAnyByte) {
  BlobLimits limits;
  limits.update_bytes_max = 1000;
  start(limits);
  Client client = connect();
  ASSERT_TRUE(client.send(head(digest_) + "Content-Length: 6442450944\r\n\r\n"));
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 413);
  EXPECT_NE(reply.body.find("6442450944"), std::string::npos);
  EXPECT_TRUE(driver_.seen<UploadOffered>().empty());
}

TEST_F(UpdatesTest, AFullDiskIsSaidBeforeAnyByte) {
  BlobLimits limits;
  limits.quota_bytes = 100'000;
  start(limits);
  Client client = connect();
  ASSERT_TRUE(client.send(head(digest_) + "Expect: 100-continue\r\nContent-Length: " +
                          std::to_string(bytes_.size()) + "\r\n\r\n"));
  const Reply reply = client.read_reply();
  EXPECT_EQ(reply.status, 507);
  EXPECT_NE(reply.body.find("quota"), std::string::npos);
}

TEST_F(UpdatesTest, WhatTheScreeningRefusesIsDecidedAsRefused) {
  screen_ = [](const std::filesystem::path&, const UpdateMetadata&) -> Result<double> {
    return Error{Code::not_finite, "tensor 'weight' has a NaN", "Check the learning rate."};
  };
  const Reply reply = put_all();
  EXPECT_EQ(reply.status, 201);
  EXPECT_NE(reply.body.find("rejected"), std::string::npos);
  EXPECT_NE(reply.body.find("NaN"), std::string::npos);
  EXPECT_TRUE(driver_.seen<UpdateStored>().empty());
  ASSERT_EQ(driver_.seen<UpdateRefused>().size(), 1u);
}

TEST_F(UpdatesTest, AFaultOfTheServersDiskIsNotTheUpdates) {
  bool broken = true;
  screen_ = [&broken](const std::filesystem::path&, const UpdateMetadata&) -> Result<double> {
    if (broken) return Error{Code::storage, "read the update: input/output error", ""};
    return 1.0;
  };
  EXPECT_EQ(put_all().status, 503);
  EXPECT_TRUE(driver_.seen<UpdateRefused>().empty());
  EXPECT_EQ(ask("HEAD").header("fedqueue-offset"), std::to_string(bytes_.size()));
  broken = false;
  EXPECT_EQ(put_all().status, 201);
}

TEST_F(UpdatesTest, AnUpdateTheEngineCannotTakeNowNeedsNoSecondTransfer) {
  driver_.answer_with([this](const Event& event) -> Answer {
    if (std::holds_alternative<UpdateStored>(event)) {
      return Error{Code::try_again, "busy", ""};
    }
    return decide(event);
  });
  EXPECT_EQ(put_all().status, 503);
  driver_.answer_with([this](const Event& event) { return decide(event); });
  EXPECT_EQ(ask("HEAD").header("fedqueue-offset"), std::to_string(bytes_.size()));
  Client client = connect();
  const Reply reply =
      client.request(head(digest_) + "Content-Length: 0\r\nContent-Range: bytes */" +
                     std::to_string(bytes_.size()) + "\r\n");
  EXPECT_EQ(reply.status, 201);
}

TEST_F(UpdatesTest, AnUpdateTheEngineRefusesLeavesNoBytes) {
  driver_.answer_with([this](const Event& event) -> Answer {
    if (std::holds_alternative<UpdateStored>(event)) {
      return Error{Code::conflict, "another launch took over", ""};
    }
    return decide(event);
  });
  EXPECT_EQ(put_all().status, 409);
  EXPECT_FALSE(std::filesystem::exists(blobs_->update_path(UpdateId("site-a.1.0.1"))));
}

TEST_F(UpdatesTest, ANewerRequestTakesOverFromOneThatHangs) {
  Client hanging = connect();
  ASSERT_TRUE(hanging.send(head(digest_) + "Expect: 100-continue\r\nContent-Length: " +
                           std::to_string(bytes_.size()) + "\r\n\r\n"));
  ASSERT_EQ(hanging.read_reply().status, 100);
  ASSERT_TRUE(hanging.send(bytes_.substr(0, 300'000)));
  EXPECT_EQ(put_all().status, 201);
  EXPECT_TRUE(hanging.ended());
  EXPECT_EQ(driver_.seen<UpdateStored>().size(), 1u);
}

TEST_F(UpdatesTest, ASecondRequestWaitsForADecisionThatIsUnderWay) {
  std::mutex mutex;
  std::condition_variable changed;
  bool screening = false;
  bool go_on = false;
  screen_ = [&](const std::filesystem::path&, const UpdateMetadata&) -> Result<double> {
    std::unique_lock lock(mutex);
    screening = true;
    changed.notify_all();
    changed.wait(lock, [&] { return go_on; });
    return 2.0;
  };
  Reply first;
  std::thread sender([&] { first = put_all(); });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return screening; });
  }
  Client second = connect();
  ASSERT_TRUE(second.send(head(digest_) + "Expect: 100-continue\r\nContent-Length: " +
                          std::to_string(bytes_.size()) + "\r\n\r\n"));
  while (driver_.seen<UploadOffered>().size() < 2) std::this_thread::yield();
  {
    const std::lock_guard lock(mutex);
    go_on = true;
  }
  changed.notify_all();
  sender.join();
  const Reply answer = second.read_reply();
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, first.body);
  EXPECT_EQ(driver_.seen<UpdateStored>().size(), 1u);
}

TEST_F(UpdatesTest, HeadersThatAreMissingOrWrongAreNamed) {
  const std::string line = "PUT /v1/runs/mnist/updates/site-a.1.0.1 HTTP/1.1\r\nHost: x\r\n";
  const std::string metadata = "Fedqueue-Metadata: {\"base\":0,\"steps_run\":1}\r\n";
  const std::string token = "Fedqueue-Job-Token: t\r\n";
  const std::string digest = "Fedqueue-Digest: " + digest_ + "\r\n";
  const std::pair<std::string, const char*> cases[] = {
      {line + metadata + token, "Fedqueue-Digest"},
      {line + metadata + token + "Fedqueue-Digest: xyz\r\n", "Fedqueue-Digest"},
      {line + metadata + digest, "Fedqueue-Job-Token"},
      {line + token + digest, "Fedqueue-Metadata"},
      {line + token + digest + "Fedqueue-Metadata: {}\r\n", "base"},
      {line + token + digest + "Fedqueue-Metadata: {" + std::string(5000, ' ') + "}\r\n",
       "Fedqueue-Metadata"},
      {line + metadata + token + digest + "Content-Range: bytes 0-9/10\r\n", "Content-Length"},
      {line + metadata + token + digest + "Content-Range: nonsense\r\n", "Content-Range"}};
  for (const auto& [request, word] : cases) {
    Client client = connect();
    const Reply reply = client.request(request, "abc");
    EXPECT_EQ(reply.status, 400) << word;
    EXPECT_NE(reply.body.find(word), std::string::npos) << reply.body;
  }
  Client client = connect();
  EXPECT_EQ(
      client.request(line + metadata + token + digest + "Transfer-Encoding: chunked\r\n").status,
      411);
  EXPECT_TRUE(driver_.seen<UploadOffered>().empty());
}

}  // namespace
}  // namespace fedqueue::http::test
