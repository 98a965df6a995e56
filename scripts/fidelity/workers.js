// Three worker threads that a main thread gives work, eight pieces at a time.
const { Worker, isMainThread, parentPort } = require("worker_threads");
if (isMainThread) {
    let left = 1500, out = 0;
    const workers = Array.from({ length: 3 }, () => new Worker(__filename));
    const give = (worker) => { if (left > 0) { left--; out++; worker.postMessage(left); } };
    for (const worker of workers) {
        worker.on("message", () => {
            out--;
            give(worker);
            if (left === 0 && out === 0) workers.forEach((worker) => worker.terminate());
        });
        for (let k = 0; k < 8; k++) give(worker);
    }
} else {
    parentPort.on("message", (n) => {
        let sum = 0;
        for (let k = 0; k < 30000; k++) sum += k * n;
        parentPort.postMessage(sum);
    });
}
