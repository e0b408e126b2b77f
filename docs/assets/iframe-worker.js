// Search runs in a worker, which browsers refuse to pages that are read from the disk. There a
// hidden frame does the same: what is posted to the worker is an event in the frame, and back.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.inside = new Promise(ready => {
        frame.onload = () => {
          const inside = frame.contentWindow
          inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
          const script = inside.document.createElement("script")
          script.src = new URL(url, location)
          script.onload = () => ready(inside)
          inside.document.body.append(script)
        }
      })
      if (document.body) document.body.append(frame)
      else addEventListener("DOMContentLoaded", () => document.body.append(frame))
    }

    postMessage(data) {
      this.inside.then(inside => inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
