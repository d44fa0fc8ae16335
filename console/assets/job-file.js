// Fill the form of a quote with the numbers of a job.json. The file is read in the browser and not sent anywhere.

const SIZES = { f32: 4, i64: 8, bool: 1 };
const MOST = 2 ** 26;

// Size of a canonical state: a header that lists the tensors, then their elements.
function stateSize(tensors) {
  const order = [...tensors].sort((a, b) => (a.name < b.name ? -1 : 1));
  const header = JSON.stringify(order.map(({ name, dtype, shape }) => [name, dtype, shape]));
  return tensors.reduce(
    (sum, { dtype, shape }) => sum + shape.reduce((product, size) => product * BigInt(size), BigInt(SIZES[dtype])),
    BigInt(4 + header.length),
  );
}

// BigInt, because work has more digits than a double.
function write(value, unit) {
  const millionths = (value * 1_000_000n + unit - 1n) / unit;
  const part = (millionths % 1_000_000n).toString().padStart(6, "0").replace(/0+$/, "");
  return `${millionths / 1_000_000n}${part && `.${part}`}`;
}

export function numbersOf(text, bytes) {
  const job = JSON.parse(text);
  const states = stateSize(job.global_tensors) + stateSize(job.local_tensors);
  const shards = job.shards.reduce((sum, { size }) => sum + BigInt(size), 0n);
  return {
    name: String(job.name),
    numbers: {
      rounds: BigInt(job.rounds),
      slots: BigInt(job.slots),
      steps: BigInt(job.round_steps),
      segment: BigInt(job.segment_steps),
      work: BigInt(job.step_flops),
      outer: BigInt(job.outer_flops),
      state: states,
      files: BigInt(bytes) + states + shards,
    },
  };
}

document.addEventListener("change", async (event) => {
  if (event.target.id !== "job-file") return;
  const said = document.getElementById("job-said");
  const [file] = event.target.files;
  if (!file) return;
  try {
    if (file.size > MOST) throw new Error("too large");
    const { name, numbers } = numbersOf(await file.text(), file.size);
    for (const [field, value] of Object.entries(numbers)) {
      const input = event.target.form.elements[field];
      input.value = write(value, BigInt(input.dataset.unit));
    }
    said.textContent = `The numbers are those of the job ${name.slice(0, 64)}, from ${file.name.slice(0, 64)}; the file stays in this browser.`;
  } catch {
    said.textContent = `${file.name.slice(0, 64)} is not a job.json: choose the job.json that assay job build wrote.`;
  }
});
