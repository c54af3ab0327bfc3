/** For tests: what they make in an engine has this label, by which a run of tests finds what is its own, and nobody else's. */
const name = 'flynn.test';
/** Set by test/run.ts; without it a test was started by itself. */
const run = process.env['FLYNN_TEST_RUN'] ?? '1';

export const testLabels: Readonly<Record<string, string>> = { [name]: run };
/** As docker's `--label` takes it. */
export const testLabel = `${name}=${run}`;
