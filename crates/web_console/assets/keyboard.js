// Keys: `/` searches, `j` and `k` move through the rows of a view, Enter opens the row's link, Esc goes back.

export function enableKeyboard({ search, view }) {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') {
      escape(search);
      return;
    }
    if (event.target.matches('input, textarea, select')) return;
    if (event.key === '/') {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === 'j' || event.key === 'k') {
      move(view, event.key === 'j' ? 1 : -1);
    }
  });
}

// Leaves a field, or goes from a view back to the one before.
function escape(search) {
  if (document.activeElement?.matches('input, textarea, select')) {
    if (document.activeElement === search) search.value = '';
    document.activeElement.blur();
  } else if (location.hash && location.hash !== '#/') {
    history.back();
  }
}

// Selects the link of the next or the previous row.
function move(view, step) {
  const rows = [...view.querySelectorAll('[data-row]')].filter((it) => it.querySelector('a'));
  if (rows.length === 0) return;
  const current = rows.findIndex((it) => it.contains(document.activeElement));
  const next = current < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(current + step, 0), rows.length - 1);
  const link = rows[next].querySelector('a');
  link.focus();
  link.scrollIntoView({ block: 'nearest' });
}
