// Stream capture and graphs of the CUDA runtime. A graph is the text that its work would have printed, in submission order,
// which its dependencies allow; a launch prints that text.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "state.h"

using namespace mmagen_host;

namespace {

/// One capture: its origin stream, and the streams that joined it through events.
class Capture {
 public:
  Capture(cudaStream_t origin, cudaStreamCaptureMode mode)
      : origin(origin), mode(mode), thread(std::this_thread::get_id()), file_(open_memstream(&text_, &size_)) {}
  ~Capture() {
    std::fclose(file_);
    std::free(text_);
  }
  Capture(Capture const&) = delete;
  Capture& operator=(Capture const&) = delete;

  FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    return {text_, size_};
  }

  /// Notes work on one of its streams, or that this stream waits for work on another one.
  void add_work(cudaStream_t stream) {
    ++work[stream];
    if (stream != origin) { unjoined.insert(stream); }
  }

  cudaStream_t const origin;
  cudaStreamCaptureMode const mode;
  std::thread::id const thread;
  bool invalidated = false;
  std::map<cudaStream_t, int> work;  // how much there was so far
  std::set<cudaStream_t> unjoined;   // streams for whose last work no other stream waits

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  FILE* file_;
};

/// The last record of an event.
struct Recorded {
  bool in_capture = false;
  std::weak_ptr<Capture> capture;  // expired once the capture has ended
  cudaStream_t stream = nullptr;
  int work = 0;  // of the stream, before it
};

std::map<cudaStream_t, std::shared_ptr<Capture>> captures;  // by stream
std::map<cudaEvent_t, Recorded> records;                    // by event
std::set<cudaStream_t> non_blocking;
thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

bool is_legacy(cudaStream_t stream) { return stream == nullptr || stream == cudaStreamLegacy; }

std::shared_ptr<Capture> capture_of(cudaStream_t stream) {
  auto const found = captures.find(stream);
  return found == captures.end() ? nullptr : found->second;
}

cudaError_t refuse_and_invalidate(Capture& capture, cudaError_t error, char const* function, char const* why) {
  capture.invalidated = true;
  return refuse(error, function, "%s", why);
}

/// Does the capture forbid calls of this thread that are unsafe?
bool forbids_unsafe_calls(Capture const& capture) {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed || capture.mode == cudaStreamCaptureModeRelaxed) { return false; }
  bool const is_local = mode_of_thread == cudaStreamCaptureModeThreadLocal || capture.mode == cudaStreamCaptureModeThreadLocal;
  return !is_local || capture.thread == std::this_thread::get_id();
}

/// Is a stream being captured that synchronizes with the legacy default stream?
bool blocks_legacy_stream() {
  for (auto const& [stream, capture] : captures) {
    if (non_blocking.count(stream) == 0) { return true; }
  }
  return false;
}

/// May `stream` be used now? If not, the call is refused.
bool is_usable(cudaStream_t stream, char const* function) {
  std::shared_ptr<Capture> const capture = capture_of(stream);
  if (capture != nullptr && capture->invalidated) {
    refuse(cudaErrorStreamCaptureInvalidated, function, "an earlier call has invalidated the capture of this stream");
    return false;
  }
  if (!is_legacy(stream) || !blocks_legacy_stream()) { return true; }
  for (auto const& [captured, one] : captures) { one->invalidated |= non_blocking.count(captured) == 0; }
  refuse(cudaErrorStreamCaptureImplicit, function,
         "work on the legacy default stream would depend on a stream that is being captured");
  return false;
}

}  // namespace

namespace mmagen_host {

FILE* output_for(cudaStream_t stream, char const* function) {
  if (!is_usable(stream, function)) { return nullptr; }
  std::shared_ptr<Capture> const capture = capture_of(stream);
  if (capture == nullptr) { return state().out; }
  capture->add_work(stream);
  return capture->file();
}

bool refuse_if_unsafe(char const* function) {
  bool forbidden = false;
  for (auto const& [stream, capture] : captures) {
    if (!forbids_unsafe_calls(*capture)) { continue; }
    capture->invalidated = true;
    forbidden = true;
  }
  if (forbidden) { refuse(cudaErrorStreamCaptureUnsupported, function, "not permitted while a stream is being captured"); }
  return forbidden;
}

void add_non_blocking(cudaStream_t stream) { non_blocking.insert(stream); }

void invalidate_capture(cudaStream_t stream) {
  if (std::shared_ptr<Capture> const capture = capture_of(stream)) { capture->invalidated = true; }
}

void invalidate_by_query(cudaStream_t stream) {
  invalidate_capture(stream);
  for (auto const& [captured, capture] : captures) { capture->invalidated |= forbids_unsafe_calls(*capture); }
}

}  // namespace mmagen_host

extern "C" {

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (is_legacy(stream) && blocks_legacy_stream()) {
    return refuse(cudaErrorStreamCaptureImplicit, "cudaStreamIsCapturing", "the legacy default stream, during a capture");
  }
  std::shared_ptr<Capture> const capture = capture_of(stream);
  *status = capture != nullptr && capture->invalidated ? cudaStreamCaptureStatusInvalidated
            : capture != nullptr || state().capturing  ? cudaStreamCaptureStatusActive
                                                       : cudaStreamCaptureStatusNone;
  return injected("cudaStreamIsCapturing");
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (is_legacy(stream)) {
    return refuse(cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture", "the legacy default stream cannot be captured");
  }
  if (capture_of(stream) != nullptr) {
    return refuse(cudaErrorIllegalState, "cudaStreamBeginCapture", "this stream is already being captured");
  }
  captures[stream] = std::make_shared<Capture>(stream, mode);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  std::shared_ptr<Capture> const ended = capture_of(stream);
  if (ended == nullptr) { return refuse(cudaErrorIllegalState, "cudaStreamEndCapture", "this stream is not being captured"); }
  if (ended->origin != stream) {
    return refuse_and_invalidate(*ended, cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture",
                                 "the capture began on another stream");
  }
  for (auto at = captures.begin(); at != captures.end();) { at = at->second == ended ? captures.erase(at) : std::next(at); }
  if (ended->invalidated) {
    return refuse(cudaErrorStreamCaptureInvalidated, "cudaStreamEndCapture", "an earlier call has invalidated the capture");
  }
  if (!ended->unjoined.empty()) {
    return refuse(cudaErrorStreamCaptureUnjoined, "cudaStreamEndCapture", "the origin does not wait for a stream that joined");
  }
  *graph = reinterpret_cast<cudaGraph_t>(new std::string(ended->text()));
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  if (graph == nullptr) { return refuse(cudaErrorInvalidValue, "cudaGraphInstantiate", "no graph"); }
  *executable = reinterpret_cast<cudaGraphExec_t>(new std::string(*reinterpret_cast<std::string*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  if (executable == nullptr) { return refuse(cudaErrorInvalidValue, "cudaGraphLaunch", "no graph"); }
  FILE* const out = output_for(stream, "cudaGraphLaunch");
  if (out == nullptr) { return last_error; }
  std::fputs(reinterpret_cast<std::string*>(executable)->c_str(), out);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<std::string*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<std::string*>(executable);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (std::shared_ptr<Capture> const capture = capture_of(stream)) {
    return refuse_and_invalidate(*capture, cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize",
                                 "this stream is being captured");
  }
  return is_usable(stream, "cudaStreamSynchronize") ? cudaSuccess : last_error;
}
/// In any mode: streams that are being captured are among those that it waits for.
cudaError_t cudaDeviceSynchronize() {
  if (captures.empty()) { return cudaSuccess; }
  for (auto const& [stream, capture] : captures) { capture->invalidated = true; }
  return refuse(cudaErrorStreamCaptureUnsupported, "cudaDeviceSynchronize", "not permitted while a stream is being captured");
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (!is_usable(stream, "cudaEventRecord")) { return last_error; }
  std::shared_ptr<Capture> const capture = capture_of(stream);
  records[event] = {capture != nullptr, capture, stream, capture == nullptr ? 0 : capture->work[stream]};
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  auto const found = records.find(event);
  if (found == records.end() || !found->second.in_capture) { return cudaSuccess; }
  if (auto const capture = found->second.capture.lock()) { capture->invalidated = true; }
  return refuse(cudaErrorCapturedEvent, "cudaEventSynchronize", "the event was last recorded in a capture");
}
/// A stream that waits for an event recorded in a capture joins that capture.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  char const* const function = "cudaStreamWaitEvent";
  std::shared_ptr<Capture> const own = capture_of(stream);
  auto const found = records.find(event);
  if (!is_usable(stream, function)) { return last_error; }
  if (found == records.end()) { return cudaSuccess; }  // never recorded: nothing to wait for
  Recorded const& record = found->second;
  std::shared_ptr<Capture> const joined = record.capture.lock();
  if (joined == nullptr) {
    if (record.in_capture) {
      return refuse(cudaErrorCapturedEvent, function, "the event was recorded in a capture that has ended");
    }
    if (own == nullptr) { return cudaSuccess; }
    return refuse_and_invalidate(*own, cudaErrorStreamCaptureIsolation, function,
                                 "captured work would depend on an event recorded outside the capture");
  }
  if (is_legacy(stream)) {
    return refuse_and_invalidate(*joined, cudaErrorStreamCaptureImplicit, function,
                                 "the legacy default stream cannot be captured");
  }
  if (own != nullptr && own != joined) {
    own->invalidated = true;
    return refuse_and_invalidate(*joined, cudaErrorStreamCaptureMerge, function, "two captures would become one");
  }
  captures[stream] = joined;
  if (record.stream != stream && joined->work[record.stream] == record.work) { joined->unjoined.erase(record.stream); }
  joined->add_work(stream);
  return cudaSuccess;
}

}  // extern "C"
