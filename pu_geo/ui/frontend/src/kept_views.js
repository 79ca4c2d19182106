/**
 * One view for each place that Streamlit gave. Streamlit also ends a call that a newer one overtook: a view goes once its place has
 * left the page, and no sooner.
 */
export function keeping(make) {
  const views = new Map();
  return (component) => {
    const place = component.parentElement;
    if (!views.has(place)) place.append(views.set(place, make()).get(place).root);
    views.get(place).update(component);
    return () => {
      if (place.isConnected) return;
      views.get(place)?.dispose();
      views.delete(place);
    };
  };
}
