// The theme searches in a Worker, which browsers do not start for pages that are read from the disk. There a frame does.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame.contentWindow;
      this.loaded = new Promise((resolve) => (frame.onload = resolve));
      const load = "(url) => new Promise((done) => { const script = document.createElement('script');"
        + " script.src = url; script.onload = done; document.body.append(script); })";
      this.frame.document.open();
      this.frame.document.write(
        "<html><body><script>postMessage = (data) => parent.postMessage(data, '*');"
        + `const load = ${load};`
        + "importScripts = (...urls) => urls.reduce((before, url) => before.then(() => load(url)), Promise.resolve());"
        + `</scr${""}ipt><script src="${new URL(url, location)}"></scr${""}ipt></body></html>`,
      );
      this.frame.document.close();
      addEventListener("message", (event) => {
        if (event.source === this.frame) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
          this.onmessage?.(event);
        }
      });
    }

    postMessage(data) {
      this.loaded.then(() => this.frame.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {}
  };
}
