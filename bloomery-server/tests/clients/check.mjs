// A table of cases: runs them in order, prints a line each and the sum.

export function assert(condition, what) {
  if (!condition) throw new Error(what);
}

export function equal(seen, wanted, what = "value") {
  assert(Object.is(seen, wanted), `${what}: ${JSON.stringify(seen)} instead of ${JSON.stringify(wanted)}`);
}

/** Runs `cases`, an object of functions by name, and returns how many failed. */
export async function runCases(suite, cases) {
  let failed = 0;
  for (const [name, run] of Object.entries(cases)) {
    try {
      await run();
      console.log(`ok      ${suite}: ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${suite}: ${name}: ${error.message}`);
    }
  }
  const passed = Object.keys(cases).length - failed;
  console.log(`${passed} passed, ${failed} failed`);
  return failed;
}
