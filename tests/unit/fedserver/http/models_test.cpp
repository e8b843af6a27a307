// Downloads.
#include <gtest/gtest.h>

#include "tests/unit/fedserver/http/http_fixture.h"

namespace fedqueue::http::test {
namespace {

class ModelsTest : public HttpTest {
 protected:
  void SetUp() override {
    HttpTest::SetUp();
    for (int i = 0; i < 700'000; ++i) content_.push_back(static_cast<char>(i * 7 + i / 256));
    publish(0, "the initial model");
    publish(1, content_);
  }
  Reply get(const std::string& version, const std::string& headers = "",
            const std::string& verb = "GET") {
    Client client = connect();
    return client.request(verb + " /v1/runs/mnist/models/" + version + " HTTP/1.1\r\nHost: x\r\n" +
                          headers);
  }
  std::string tag() const { return "\"" + sha256_hex(content_) + "\""; }

  std::string content_;
};

TEST_F(ModelsTest, LatestPointsToTheNewestVersion) {
  const Reply reply = get("latest");
  EXPECT_EQ(reply.status, 307);
  EXPECT_EQ(reply.header("location"), "/v1/runs/mnist/models/1");
}

TEST_F(ModelsTest, AVersionIsItsFile) {
  const Reply reply = get("1");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("etag"), tag());
  EXPECT_EQ(reply.header("accept-ranges"), "bytes");
  EXPECT_TRUE(reply.body == content_);
  EXPECT_EQ(get("0").body, "the initial model");
}

TEST_F(ModelsTest, HeadTellsTheSizeAlone) {
  const Reply reply = get("1", "", "HEAD");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-length"), std::to_string(content_.size()));
  EXPECT_TRUE(reply.body.empty());
}

TEST_F(ModelsTest, APartIsServed) {
  const Reply reply = get("1", "Range: bytes=300000-\r\n");
  EXPECT_EQ(reply.status, 206);
  EXPECT_EQ(reply.header("content-range"), "bytes 300000-699999/700000");
  EXPECT_TRUE(reply.body == content_.substr(300'000));
  EXPECT_EQ(get("1", "Range: bytes=-5\r\n").body, content_.substr(content_.size() - 5));
}

TEST_F(ModelsTest, APartOfAnotherFileIsNotServed) {
  EXPECT_EQ(get("1", "Range: bytes=5-\r\nIf-Range: \"other\"\r\n").status, 200);
  EXPECT_EQ(get("1", "Range: bytes=5-\r\nIf-Range: " + tag() + "\r\n").status, 206);
}

TEST_F(ModelsTest, ARangeBeyondTheEndSaysWhereTheEndIs) {
  const Reply reply = get("1", "Range: bytes=700000-\r\n");
  EXPECT_EQ(reply.status, 416);
  EXPECT_EQ(reply.header("content-range"), "bytes */700000");
}

TEST_F(ModelsTest, AKnownModelIsNotSentAgain) {
  const Reply reply = get("1", "If-None-Match: " + tag() + "\r\n");
  EXPECT_EQ(reply.status, 304);
  EXPECT_EQ(reply.header("etag"), tag());
}

TEST_F(ModelsTest, UnknownAndPrunedVersionsSaySo) {
  const Reply unknown = get("99");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_NE(unknown.body.find("the newest is 1"), std::string::npos);
  publish(2, "the next model");
  happen(ModelsPruned{2});
  const Reply pruned = get("1");
  EXPECT_EQ(pruned.status, 404);
  EXPECT_NE(pruned.body.find("no longer kept"), std::string::npos);
  // The initial model stays: whoever starts late or compares needs it.
  EXPECT_EQ(get("0").status, 200);
  EXPECT_EQ(get("-1").status, 404);
  EXPECT_EQ(get("99999999999999999999").status, 404);
}

TEST_F(ModelsTest, ADownloadThatIsBrokenOffHarmsNobody) {
  for (int i = 0; i < 3; ++i) {
    Client client = connect();
    ASSERT_TRUE(client.send("GET /v1/runs/mnist/models/1 HTTP/1.1\r\nHost: x\r\n\r\n"));
    (void)client.read_until("\r\n\r\n");
    client.close();
  }
  EXPECT_TRUE(get("1").body == content_);
}

}  // namespace
}  // namespace fedqueue::http::test
