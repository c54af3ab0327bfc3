/** What whoever does the controller's work in the background is elected for. */
export const workerSeat = 'controller-worker';
